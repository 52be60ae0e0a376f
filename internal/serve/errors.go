package serve

import "errors"

// Reasons not to admit a call, and to cancel one.
var (
	errDuplicateID  = errors.New("the request id is in use by a call that runs")
	errQueueFull    = errors.New("too many calls wait already; wait for their answers")
	errEnding       = errors.New("the server is shutting down")
	errCancelled    = errors.New("the client cancelled the request")
	errSessionEnded = errors.New("the session has ended")
	errDisconnected = errors.New("the client went away")
)

// Reasons why a client cannot be asked.
var (
	errTooManyQuestions = errors.New("too many questions to the client have no answer yet")
	errNoWayToAsk       = errors.New("there is no stream to the client on which it could be asked")
)

// Reasons not to begin a session.
var (
	errOwnSessions = errors.New("you have too many sessions; end one with DELETE, or try again later")
	errAllSessions = errors.New("the server has too many sessions; try again later")
)
