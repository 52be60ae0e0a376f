package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

const (
	handlePrefix = "sbx_"
	randomBytes  = 16
	proofBytes   = 9 // with the random bytes a whole number of base32 letters
	// labelLength is how much of a handle stands in logs and on sandboxes: it
	// tells sessions apart and leaves 160 bits to guess.
	labelLength = len(handlePrefix) + 8
)

// A minter makes handles and knows its own. A handle is random and carries a
// proof that it was made for its principal, with a key that outlives the
// server: it needs no table to be told from a forged or a foreign one.
type minter struct{ key []byte }

// mint makes a handle for a principal.
func (m minter) mint(principal string) string {
	random := make([]byte, randomBytes)
	rand.Read(random)
	return m.handle(random, principal)
}

func (m minter) handle(random []byte, principal string) string {
	raw := slices.Concat(random, m.proof(random, principal))
	return handlePrefix + strings.ToLower(letters().EncodeToString(raw))
}

// made tells whether handle was made for principal.
func (m minter) made(handle, principal string) bool {
	text, ok := strings.CutPrefix(handle, handlePrefix)
	if !ok || len(text) != letters().EncodedLen(randomBytes+proofBytes) || text != strings.ToLower(text) {
		return false
	}
	raw, err := letters().DecodeString(strings.ToUpper(text))
	return err == nil && hmac.Equal(raw[randomBytes:], m.proof(raw[:randomBytes], principal))
}

func (m minter) proof(random []byte, principal string) []byte {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte("session handle\x00"))
	h.Write(random)
	h.Write([]byte(principal))
	return h.Sum(nil)[:proofBytes]
}

func letters() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// IsHandle tells whether text is meant as a handle, right or wrong.
func IsHandle(text string) bool { return strings.HasPrefix(text, handlePrefix) }

// maxName bounds a session's name.
const maxName = 32

// isName tells whether text can name a session within a scope.
func isName(text string) bool {
	for i, c := range []byte(text) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && (c != '-' || i == 0) {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}
