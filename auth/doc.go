// Package auth says who sends a request and what that user may do.
//
// # Rules
//
//	A1  A password is verified with bcrypt at first, and costs microseconds from then on: see Credentials.
//	A2  Unknown users cost what known ones cost, and wrong passwords cost what right ones cost.
//	A3  Guessing is slow: a name may fail 5 times at once and then once in 12 s; all names that have failed lately may
//	    together fail 32 times at once and then 4 times a second. An attempt counts from its start, so that many at once are
//	    no way around it, and is given back when it succeeds.
//	A4  A flood of failing logins delays nobody else: at most 4 verifications run at once, names without recent failures come first,
//	    and a name without recent failures is never refused by the budget of all. Verified credentials wait for nothing.
//	A5  Of several requests with the same new credentials one runs bcrypt, and all take its result. One that leaves fails
//	    none of the others (B199).
//	A6  At most 2 passwords are hashed at once.
//	A7  No password, hash or credential is logged, is part of an error, or is kept longer than a request.
//
// # Credentials
//
// After bcrypt has accepted a password, its keyed hash is kept: HMAC-SHA-256, with a key that is drawn at the start of the
// process and never leaves it, over the name, the stored bcrypt hash and the password. A later request is accepted when
// its keyed hash is the same, compared in constant time. That is safe:
//
//   - it is only ever an answer that bcrypt has given for this name, this stored hash and this password;
//   - the stored hash is part of it, so a change of the password makes it worthless at once, on each node, and so does the
//     deletion of the user, who is looked up first;
//   - it is in memory only, and without the key, which is in the same memory, nobody can test a guess against it. Whoever
//     reads that memory reads the passwords of requests, too.
//
// One is kept per user that exists, so it takes little memory whatever clients send.
//
// Files: auth.go (Authenticator), verify.go (verified credentials, single flight), slots.go, budget.go, grants.go (what a user
// may do), root.go (the first user).
package auth
