package guard

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

// When keys are fetched, and for how long those that are there are good.
const (
	freshFor      = 10 * time.Minute // then they are fetched anew, so that withdrawn ones go
	usableFor     = 24 * time.Hour   // while the issuer does not answer
	fetchBurst    = 5
	fetchInterval = 30 * time.Second
	maxKeys       = 64
	minRSABits    = 2048
)

// A keySet is the issuer's public keys, fetched when they are needed. Tokens
// with made-up key ids cannot make it fetch more often than the limit.
type keySet struct {
	source  *issuer
	log     *slog.Logger
	limiter *rate.Limiter

	fetching sync.Mutex // held while fetching; taken before mu

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	fetched  time.Time // the last success
	attempts int
}

func newKeySet(o Options) *keySet {
	return &keySet{source: newIssuer(o), log: o.Log, limiter: rate.NewLimiter(rate.Every(fetchInterval), fetchBurst)}
}

// find gives the keys that may have signed a token. When none is known it waits
// for one fetch; keys that are merely old do not keep anybody waiting but the
// one who fetches.
func (k *keySet) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]jose.JSONWebKey, error) {
	found, attempts, isFresh := k.look(id, algorithm)
	switch {
	case len(found) > 0 && isFresh:
		return found, nil
	case len(found) == 0:
		k.fetching.Lock()
	case !k.fetching.TryLock():
		return found, nil
	}
	k.refresh(ctx, attempts)
	k.fetching.Unlock()

	found, _, _ = k.look(id, algorithm)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(found) > 0:
		return found, nil
	case time.Since(k.fetched) > usableFor:
		return nil, errNoKeys
	}
	return nil, errUnknown
}

// look searches among the keys that are there.
func (k *keySet) look(id string, algorithm jose.SignatureAlgorithm) (found []jose.JSONWebKey, attempts int, isFresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := time.Since(k.fetched)
	if age > usableFor {
		return nil, k.attempts, false
	}
	for _, key := range k.keys {
		if (id == "" || key.KeyID == id) && fits(key, algorithm) {
			found = append(found, key)
		}
	}
	if id == "" && len(found) > 1 {
		found = nil // a token must name its key where there is a choice
	}
	return found, k.attempts, age < freshFor
}

// refresh fetches the keys, unless somebody did since the caller looked or the
// limit is reached. The caller holds fetching. A fetch serves all, so it does
// not end with the request that needed it.
func (k *keySet) refresh(ctx context.Context, attempts int) {
	k.mu.Lock()
	isDone := k.attempts != attempts
	k.mu.Unlock()
	if isDone || !k.limiter.Allow() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*fetchTimeout)
	defer cancel()
	keys, err := k.source.fetchKeys(ctx)
	if err != nil {
		k.log.WarnContext(ctx, "keys of the issuer not fetched", "error", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.attempts++
	if err == nil {
		k.keys, k.fetched = keys, time.Now()
	}
}

// parseKeys reads a JWK set. What is no public signing key is left out; a set
// that leaves nothing is taken as it is, since an issuer may withdraw all.
func parseKeys(data []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil || set.Keys == nil {
		return nil, errors.New("the answer is no JWK set")
	}
	var keys []jose.JSONWebKey
	for _, raw := range *set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err != nil || !key.IsPublic() || !key.Valid() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < minRSABits {
			continue
		}
		if len(keys) == maxKeys {
			return nil, errors.New("the JWK set has too many keys")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// fits tells whether a key is for an algorithm.
func fits(key jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if key.Algorithm != "" && key.Algorithm != string(algorithm) {
		return false
	}
	name := string(algorithm)
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(name, "RS") || strings.HasPrefix(name, "PS")
	case *ecdsa.PublicKey:
		curves := map[string]string{"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
		return curves[name] == public.Curve.Params().Name
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	}
	return false
}
