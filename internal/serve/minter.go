package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

const (
	idRandom = 16 // bytes
	idProof  = 16
)

// A minter makes ids of sessions that nobody can guess or make up, and that
// are of use to nobody but the principal they were made for.
type minter struct{ key [32]byte }

func newMinter() *minter {
	m := &minter{}
	rand.Read(m.key[:])
	return m
}

func (m *minter) mint(principal string) string {
	id := make([]byte, idRandom, idRandom+idProof)
	rand.Read(id)
	return base64.RawURLEncoding.EncodeToString(append(id, m.proof(id, principal)...))
}

// isOwn tells whether an id was made here, for this principal.
func (m *minter) isOwn(id, principal string) bool {
	if len(id) > base64.RawURLEncoding.EncodedLen(idRandom+idProof) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(raw) == idRandom+idProof && hmac.Equal(raw[idRandom:], m.proof(raw[:idRandom], principal))
}

func (m *minter) proof(random []byte, principal string) []byte {
	mac := hmac.New(sha256.New, m.key[:])
	mac.Write(random)
	mac.Write([]byte(principal))
	return mac.Sum(nil)[:idProof]
}

// shortOf names a session in logs without giving it away.
func shortOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}
