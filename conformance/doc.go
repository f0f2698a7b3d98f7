// Package conformance holds the HTTP surface to what it promises, from outside: fixtures in testdata say which request gets
// which answer, and [Run] plays them against any server, knowing nothing of what is behind its address.
//
//	go test ./conformance                                       # a server in this process, and the real program
//	NARAD_CONFORMANCE_URL=http://127.0.0.1:7942 go test ./conformance -run URL
//
// The second form plays against a server that is there already. NARAD_CONFORMANCE_USER and NARAD_CONFORMANCE_PASSWORD are
// those of an administrator, when it asks for one. Names of topics are new in each run.
//
// # Fixtures
//
// A file of testdata is a story: steps, one after the other, on topics of its own.
//
//	{
//	  "about": "a message is consumed and settled",
//	  "needs": ["open"],
//	  "steps": [
//	    {"do": "POST /v1/topics", "json": {"name": "${t}"}, "expect": {"status": 201, "json": {"name": "${t}", "id": "<hex16>"}}},
//	    {"do": "GET /v1/topics/${t}/consume?wait=10s", "expect": {"status": 200}, "save": {"handle": "receipt_handle"}}
//	  ]
//	}
//
// needs lists what a server must be for the story to be told: "open" (security is off), "secured" (it is on, and the run is an
// administrator), "small-caps" (two consumes and two produces in flight for one client, and not a byte for bodies of batches
// beyond 1 MiB). A server that is something else skips it.
//
// A step has the request line in do, headers, and one form of body: json (any value), text, base64, or repeat ({"text",
// "times", "before", "after"}); encode compresses it with gzip or zstd. A request has an X-Narad-Client header unless its
// headers say "X-Narad-Client": null. as is the user that sends it: "name:password"; without it is the administrator,
// and "" is nobody. park sends it and goes on; it must be answered as expected by the end of the story. retry
// repeats it until it is answered as expected. times does it that many times.
//
// expect has status; headers, of which null means absent and a value may be a pattern; json, compared field by field where
// fields that it does not name are ignored; text, the whole body. An answer of 400 and above must be {"error":"…"} on one
// line of JSON with its length, unless plain says that it is text. Patterns are strings: "<any>", "<string>", "<int>", "<hex16>",
// "<handle>", "<seconds>" (unix time, about now), "<absent>", and "/…/", a regular expression.
//
// ${name} stands for what a step before saved, by the path in its answer ("messages.0.receipt_handle"), for ${t}, a name
// of a topic that nobody has, for ${user} and ${password} of the run, or for ${kib8}, ${kib60}, ${kib80}, that many KiB of x.
package conformance
