package guard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	minToken = 16
	maxToken = 8 << 10 // of what a request presents; access tokens are long

	// beyondGuessing is the length from which a token cannot be found by
	// trying, however many tries there are.
	beyondGuessing = 32

	// unnamed begins the principals of tokens without a name.
	unnamed = "token-"
)

// A digest stands for a token in memory and in comparisons.
type digest [sha256.Size]byte

// A token is a bearer token that is known beforehand.
type token struct {
	principal string
	digest    digest
}

// parseTokens reads TOKEN or NAME:TOKEN. One name may have several tokens, so
// that they can be changed one after the other.
func parseTokens(texts []string) (tokens []token, faults []Fault) {
	names := map[digest]string{}
	for i, text := range texts {
		key := fmt.Sprintf("tokens[%d]", i)
		t, message := parseToken(text)
		if message != "" {
			faults = append(faults, Fault{key, message})
			continue
		}
		if name, isThere := names[t.digest]; isThere && name != t.principal {
			faults = append(faults, Fault{key, fmt.Sprintf("is the token of %s already; every principal needs its own", name)})
			continue
		}
		names[t.digest] = t.principal
		tokens = append(tokens, t)
	}
	return tokens, faults
}

// parseToken gives the token or what is wrong with its text.
func parseToken(text string) (t token, message string) {
	name, secret, isNamed := strings.Cut(text, ":")
	if !isNamed {
		name, secret = "", text
	}
	switch {
	case len(secret) < minToken || len(secret) > maxToken || !isBearer(secret):
		return token{}, "must have at least 16 characters and no spaces: letters, digits and -._~+/ only; NAME:TOKEN gives it a name"
	case isNamed && !isPrincipalName(name):
		return token{}, "has a name that is not 1 to 64 letters, digits and ._- after a letter or digit"
	case strings.HasPrefix(name, unnamed):
		return token{}, "has a name that begins with " + unnamed + ", which is kept for tokens without one"
	}
	if !isNamed {
		name = unnamedPrincipal(secret)
	}
	return token{principal: name, digest: sha256.Sum256([]byte(secret))}, ""
}

// unnamedPrincipal is a name that stays the same for the same token and tells
// too little of it to be of use.
func unnamedPrincipal(secret string) string {
	sum := sha256.Sum256([]byte("principal of " + secret))
	return unnamed + hex.EncodeToString(sum[:5])
}

func isPrincipalName(name string) bool {
	if name == "" || len(name) > 64 || !isAlphanumeric(name[0]) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r >= 0x80 || !isAlphanumeric(byte(r)) && !strings.ContainsRune("._-", r)
	})
}

// isBearer tells whether text has the form of RFC 6750.
func isBearer(text string) bool {
	text = strings.TrimRight(text, "=")
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r >= 0x80 || !isAlphanumeric(byte(r)) && !strings.ContainsRune("-._~+/", r)
	})
}

// newToken makes a token of 256 random bits, in base64url.
func newToken() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: it ends the process instead
	return encodeToken(random)
}

// match finds whose the secret is. It always compares with all tokens, so that
// its time tells nothing.
func match(tokens []token, secret string) (principal string, ok bool) {
	presented := digest(sha256.Sum256([]byte(secret)))
	found := -1
	for i, t := range tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(presented[:], t.digest[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return tokens[found].principal, true
}

// presented is what the Authorization headers of a request hold.
type presented int

const (
	nothing presented = iota
	unusable
	bearer
)

// readBearer finds the token of a request. Two headers are refused, because
// whoever looks at the other one would see somebody else.
func readBearer(headers []string) (secret string, what presented) {
	if len(headers) == 0 {
		return "", nothing
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	secret = strings.Trim(secret, " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") || len(secret) > maxToken || !isBearer(secret) {
		return "", unusable
	}
	return secret, bearer
}
