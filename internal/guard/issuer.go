package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of what is fetched from an issuer.
const (
	fetchTimeout = 5 * time.Second
	maxAnswer    = 1 << 20
)

// An issuer is where keys are fetched. One caller uses it at a time.
type issuer struct {
	name    string // its identifier, a URL
	jwksURL string // configured or found
	isFixed bool   // configured
	client  *http.Client
}

func newIssuer(o Options) *issuer {
	transport := o.Transport
	if transport == nil {
		// Fetches are rare: no connection is kept.
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	}
	return &issuer{
		name: o.OAuth.Issuer, jwksURL: o.OAuth.JWKSURL, isFixed: o.OAuth.JWKSURL != "",
		client: &http.Client{
			Transport: transport,
			Timeout:   fetchTimeout,
			// An address that was checked must not lead to one that was not.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("it redirects; configure the final address")
			},
		},
	}
}

// fetchKeys gives the issuer's keys. Where they are is looked up anew after a
// failure.
func (i *issuer) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	if i.jwksURL == "" {
		found, err := i.discover(ctx)
		if err != nil {
			return nil, err
		}
		i.jwksURL = found
	}
	data, err := i.get(ctx, i.jwksURL)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(data)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", i.jwksURL, err)
		if !i.isFixed {
			i.jwksURL = ""
		}
	}
	return keys, err
}

// discover asks the issuer's metadata where its keys are: OpenID Connect's
// place first, then those of RFC 8414.
func (i *issuer) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(i.name)
	if err != nil {
		return "", fmt.Errorf("issuer: %w", err)
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{
		root + path + wellKnown + "openid-configuration",
		root + wellKnown + "oauth-authorization-server" + path,
		root + wellKnown + "openid-configuration" + path,
	}
	if path == "" {
		places = places[:2]
	}
	var errs []error
	for _, place := range places {
		found, err := i.ask(ctx, place)
		if err == nil {
			return found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", place, err))
	}
	return "", errors.Join(errs...)
}

func (i *issuer) ask(ctx context.Context, place string) (string, error) {
	data, err := i.get(ctx, place)
	if err != nil {
		return "", err
	}
	var about struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &about); err != nil {
		return "", errors.New("the answer is no metadata")
	}
	if about.Issuer != i.name {
		return "", fmt.Errorf("the metadata are of the issuer %q", about.Issuer)
	}
	if err := checkURL(about.JWKSURI, true); err != nil {
		return "", fmt.Errorf("its jwks_uri %w", err)
	}
	if strings.HasPrefix(i.name, "https://") && !strings.HasPrefix(about.JWKSURI, "https://") {
		return "", errors.New("its jwks_uri leads to this machine")
	}
	return about.JWKSURI, nil
}

// get fetches a document within the bounds.
func (i *issuer) get(ctx context.Context, address string) (data []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := i.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d", response.StatusCode)
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return data, nil
}
