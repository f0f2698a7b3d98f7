// Package report shows a run to people: as a story in text, and as one HTML file that needs neither network nor
// build.
//
// [Record] runs a world and keeps what its watch saw. [Recording.Focus] finds out what the failure is about: a node, a partition,
// offsets, records of the ingress log, messages. [Recording.Story] tells what happened to these and nothing else.
// [Recording.HTML] draws everything: lanes of clients, engine tasks, files and faults over virtual time, and for each
// partition its frontier, its high watermark, its leases and the slots of consumer.ahead.
//
// Files: record.go (recording), focus.go (what a failure is about), words.go (events in plain words), story.go (text), drawing.go
// (recording to lanes and charts), html.go and page.html (the file), invariants.go (what the checks demand).
package report
