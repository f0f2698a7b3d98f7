// Package report shows a run to people: as a story in text, and as one HTML file that needs neither network nor
// build.
//
// [Record] runs a world and keeps what its watch saw. [Recording.Focus] finds out what the failure is about: a node, a partition,
// offsets, records of the ingress log, messages. [Recording.Story] tells what happened to these and nothing else.
// [Recording.Explore] runs the world again, each time without one call or fault, and tells what the failure hangs on.
// [Recording.HTML] says all that on top, puts the story on lanes, and draws everything: lanes of clients, engine tasks, files and
// faults over virtual time, and for each partition its frontier, its high watermark, its leases and the slots of consumer.ahead.
//
// Files: record.go (recording), focus.go (what a failure is about), words.go (events in plain words), story.go (text), sequence.go (the
// story on lanes, and in few steps), needed.go (what the failure hangs on), losses.go (what a power loss took, and what is missing),
// drawing.go (recording to lanes and charts), html.go, page.html and page.js (the file), invariants.go (what the checks demand).
package report
