package guard

import "errors"

// What can be wrong with an access token. Their texts are told to the client,
// so they hold nothing of the token and only characters that RFC 6750 allows.
var (
	errMalformed = errors.New("the token is not a signed JWT that this server accepts")
	errSignature = errors.New("the signature of the token is wrong")
	errUnknown   = errors.New("the token is signed by a key that the issuer does not publish")
	errIssuer    = errors.New("the token is from another issuer")
	errAudience  = errors.New("the token is meant for another server")
	errExpired   = errors.New("the token has expired")
	errTooEarly  = errors.New("the token is not valid yet")
	errNoExpiry  = errors.New("the token never expires, which is not accepted")
	errNoSubject = errors.New("the token does not say whose it is")
	errScope     = errors.New("the token lacks a scope that this server requires")
)

// errWrong is all that is told of a token that is none of those known beforehand.
var errWrong = errors.New("it is not one of the tokens of this server")

// errNoBearer is for what comes in the place of a token and is none.
var errNoBearer = errors.New("the header Authorization must be there once and read: Bearer TOKEN")

// errNoKeys means that nothing can be verified at the moment.
var errNoKeys = errors.New("the keys of the issuer cannot be fetched")
