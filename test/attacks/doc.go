// Package attacks runs a corpus of attacks against the real server, over stdio,
// as a client does whose model has turned hostile.
//
//	go test ./test/attacks -engine gvisor -run TestAttacks/esc
//	go test ./test/attacks -engine docker
//
// Without -engine both engines are tried, one after the other, and the names of
// the subtests begin with the engine's; an engine that does not work here is
// skipped, or fails where CI=true. The tests look at the server from outside, by
// /proc, and therefore need Linux.
//
// testdata/attacks.jsonl has one attack a line: code that an attacker would
// run, and what must hold then; more.jsonl has what was found while trying
// them. -corpus names other files of that form, by comma;
// -report FILE is appended what was seen, a line for each attack. The tests build
// the binary; BIOCAGE_TEST_BINARY names another.
//
// # What is judged
//
// The code prints lines "V WORD ..."; the last one is its verdict. How the run
// ended is one word, made from the result object:
//
//	ok         success
//	error      error.kind exception, or a refused call (argument)
//	timeout    error.kind timeout
//	oom        error.kind memory
//	crashed    error.kind died
//	busy       error.kind busy
//	cancelled  error.kind cancelled
//	sandbox    error.kind sandbox: the server lost or gave up the sandbox
//
// More words describe what this server does not end a run for:
//
//	output_limit  ok or error with truncated set: output is cut, the run goes on
//	oom           also error with MemoryError: the bound reached, the state kept
//	limit         error whose exception is a refused resource (BlockingIOError,
//	              MemoryError, "can't start new thread", EAGAIN, ENOSPC, EMFILE)
//	refused       error whose exception is a refused system call; it is as good
//	              as crashed where an attack may end its interpreter
//	protocol      crashed or sandbox: whatever reaches the agent's channel can
//	              only end the interpreter
//
// Where an attack names no such word but a verdict, the run must have ended ok
// or error. "info" attacks are recorded: only the server's health counts.
//
// After every attack print(6*7) must answer 42, by default within five seconds
// and without a reset; the canary on the host is unchanged; nobody has reached
// the host's listener; and the server has no more sandboxes and not many more
// open files than before. The servers live on from attack to attack.
//
// The corpus speaks of a directory /mnt for exposed files and of arguments
// `timeout` and `session_id`; they stand for /data, timeout_seconds and session.
//
// testdata/weaker.json has what an engine is known not to promise, and the
// condition that holds in its place. Attacks that pass only so have a column of
// their own. After a violent end of the server, processes, containers and
// mounts must go by themselves; names that remain (empty control groups and
// run directories) must go when the next server starts.
//
// What cannot be tried here, on this engine, is reported as not run, with the
// reason; it never counts as passed.
package attacks
