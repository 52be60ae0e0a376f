package guard

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
)

// Paths that the guard knows.
const (
	mcpPath    = "/mcp"
	healthPath = "/healthz"
)

func encodeToken(random [32]byte) string { return base64.RawURLEncoding.EncodeToString(random[:]) }

// gatherTokens gives the configured tokens and the one of the file. When there
// are none and no issuer, it makes one.
func (o Options) gatherTokens() ([]token, error) {
	tokens, _ := parseTokens(o.Tokens)
	switch {
	case o.TokenFile != "":
		t, err := o.fileToken()
		if err != nil {
			return nil, err
		}
		for _, other := range tokens {
			if other.digest == t.digest && other.principal != t.principal {
				return nil, fmt.Errorf("the token in server.token_file %s is the one of %s in server.tokens; every principal needs its own", o.TokenFile, other.principal)
			}
		}
		return append(tokens, t), nil
	case len(tokens) > 0 || o.OAuth.isSet():
		return tokens, nil
	}
	secret := newToken()
	t, _ := parseToken(secret)
	return []token{t}, o.tellToken("No token is configured, so one was made; it holds until the server ends:", secret)
}

// fileToken reads the token file, or makes it.
func (o Options) fileToken() (token, error) {
	text, err := readTokenFile(o.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return o.makeTokenFile()
	}
	if err != nil {
		return token{}, err
	}
	t, message := parseToken(text)
	if message != "" {
		return token{}, fmt.Errorf("the token in server.token_file %s %s", o.TokenFile, message)
	}
	o.Log.Info("token read", "file", o.TokenFile, "principal", t.principal)
	return t, nil
}

// readTokenFile refuses a file that other users can read: the token is as good
// as this user's rights.
func readTokenFile(path string) (text string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open server.token_file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("look at server.token_file: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("server.token_file %s is not a file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0: // there the mode says nothing
		return "", fmt.Errorf("server.token_file %s can be read by others (mode %04o); run chmod 600 %s", path, info.Mode().Perm(), path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxToken+128))
	if err != nil {
		return "", fmt.Errorf("read server.token_file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

func (o Options) makeTokenFile() (t token, err error) {
	if host, _ := o.where(); !isLoopbackHost(host) {
		return token{}, fmt.Errorf("server.token_file %s does not exist, and for a server that other machines reach none is made; write a token into it (mode 0600) first", o.TokenFile)
	}
	secret := newToken()
	f, err := os.OpenFile(o.TokenFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return token{}, fmt.Errorf("make server.token_file: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return token{}, errors.Join(fmt.Errorf("write server.token_file: %w", err), os.Remove(o.TokenFile))
	}
	t, _ = parseToken(secret)
	return t, o.tellToken("A token was made and is kept in "+o.TokenFile+":", secret)
}

// tellToken is the only place that prints a token.
func (o Options) tellToken(head, secret string) error {
	scheme := "http"
	if o.TLS {
		scheme = "https"
	}
	_, err := fmt.Fprintf(o.Tell, "%s\n\n    %s\n\nTo use it from Claude Code:\n\n"+
		"    claude mcp add --transport http biocage %s://%s%s --header \"Authorization: Bearer %s\"\n\n",
		head, secret, scheme, net.JoinHostPort(o.where()), mcpPath, secret)
	if err != nil {
		return fmt.Errorf("tell the new token: %w", err)
	}
	return nil
}
