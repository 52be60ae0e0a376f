// Package chaos holds tests that harm the real server and what it stands on,
// at bad moments: each harm must end in a clear error or a working session,
// in bounded time, with nothing left behind and no loss untold. The soak
// drives one server for long with honest and hostile clients, and checks every
// answer against a model of the session.
//
// docs/RELIABILITY.md says what is covered and how to run it.
package chaos
