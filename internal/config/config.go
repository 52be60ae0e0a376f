package config

// Config is the whole configuration. Field order is the order of the file.
type Config struct {
	// Engine isolates the sandboxes: auto, docker or gvisor.
	Engine string `yaml:"engine"`
	// Environment names what `biocage env build` built, or an image reference.
	Environment string `yaml:"environment"`
	// DataDir holds environments, snapshots and state; "" is the default place.
	DataDir string  `yaml:"data_dir"`
	Sandbox Sandbox `yaml:"sandbox"`
	Run     Run     `yaml:"run"`
	Session Session `yaml:"session"`
	Expose  Expose  `yaml:"expose"`
	Output  Output  `yaml:"output"`
	Server  Server  `yaml:"server"`
	Log     Log     `yaml:"log"`
}

// Sandbox bounds every sandbox.
type Sandbox struct {
	Memory  Size    `yaml:"memory"`
	CPUs    float64 `yaml:"cpus"`
	PIDs    int64   `yaml:"pids"`
	Disk    Size    `yaml:"disk"` // the workspace and /tmp, each
	Network string  `yaml:"network"`
}

// Run bounds one run of code.
type Run struct {
	Timeout              Duration `yaml:"timeout"`
	MaxTimeout           Duration `yaml:"max_timeout"`
	AnswerWithin         Duration `yaml:"answer_within"`
	InterruptGrace       Duration `yaml:"interrupt_grace"`
	MaxOutput            Size     `yaml:"max_output"`
	StopSessionOnFailure bool     `yaml:"stop_session_on_failure"`
}

// Session bounds the sessions of a server.
type Session struct {
	IdleTimeout Duration `yaml:"idle_timeout"`
	// Grace is how long a session outlives its connection.
	Grace Duration `yaml:"grace"`
	Max   int      `yaml:"max"`
	// MaxPerPrincipal is of Max for one principal; 0 chooses, see PerPrincipal.
	MaxPerPrincipal int `yaml:"max_per_principal"`
	Warm            int `yaml:"warm"`
}

// Expose says which host files sandboxes may see; its zero value is nothing.
type Expose struct {
	Roots  []Root  `yaml:"roots"`
	Mounts []Mount `yaml:"mounts"`
	// ClientRoots: folders that the client announces may be exposed read-only.
	ClientRoots bool `yaml:"client_roots"`
	// Ask: the person may allow a path outside the roots, read-only.
	Ask bool `yaml:"ask"`
}

// A Root is a host directory beneath which file_expose may reach.
type Root struct {
	Path string `yaml:"path"`
	Mode string `yaml:"mode"`
}

// A Mount is a host path that every session sees from its start.
type Mount struct {
	Host    string `yaml:"host"`
	Sandbox string `yaml:"sandbox"`
	Mode    string `yaml:"mode"`
}

// Output shapes the answers.
type Output struct {
	// Structured adds structuredContent and outputSchema.
	Structured bool `yaml:"structured"`
}

// Server chooses the transport.
type Server struct {
	Transport      string   `yaml:"transport"`
	Listen         string   `yaml:"listen"`
	Tokens         []string `yaml:"tokens"`
	TokenFile      string   `yaml:"token_file"`
	AllowedOrigins []string `yaml:"allowed_origins"`
	AllowedHosts   []string `yaml:"allowed_hosts"`
	TLSCert        string   `yaml:"tls_cert"`
	TLSKey         string   `yaml:"tls_key"`
	MaxBody        Size     `yaml:"max_body"`
	MaxConnections int      `yaml:"max_connections"`
	OAuth          OAuth    `yaml:"oauth"`
}

// OAuth names an issuer whose access tokens are accepted over HTTP; without
// one there is none.
type OAuth struct {
	Issuer         string   `yaml:"issuer"`
	Audience       string   `yaml:"audience"`
	JWKSURL        string   `yaml:"jwks_url"`
	Scopes         []string `yaml:"scopes"`
	PrincipalClaim string   `yaml:"principal_claim"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
	// Audit is the file that gets a line for every call of a tool; "" is none.
	Audit         string `yaml:"audit"`
	AuditContent  bool   `yaml:"audit_content"`
	AuditRequired bool   `yaml:"audit_required"`
}

// PerPrincipal is how many sessions one principal may have: all of them where
// there is only one, else a quarter stays for the others.
func (c Config) PerPrincipal() int {
	switch s := c.Session; {
	case s.MaxPerPrincipal > 0:
		return min(s.MaxPerPrincipal, s.Max)
	case !c.Server.hasSeveralPrincipals():
		return s.Max
	default:
		return s.Max - s.Max/4
	}
}

// hasSeveralPrincipals tells whether more than one may come: by tokens, or as
// many as an issuer knows.
func (s Server) hasSeveralPrincipals() bool {
	tokens := len(s.Tokens)
	if s.TokenFile != "" {
		tokens++
	}
	return s.Transport != "stdio" && (tokens > 1 || s.OAuth.Issuer != "")
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Engine:      "auto",
		Environment: "default",
		Sandbox:     Sandbox{Memory: 2 << 30, CPUs: 2, PIDs: 256, Disk: 1 << 30, Network: "none"},
		Run: Run{
			Timeout:        30 * second,
			MaxTimeout:     10 * minute,
			AnswerWithin:   45 * second,
			InterruptGrace: 2 * second,
			MaxOutput:      32 << 10,
		},
		Session: Session{IdleTimeout: 30 * minute, Grace: 10 * minute, Max: 16, Warm: 1},
		Server: Server{
			Transport: "stdio", Listen: "127.0.0.1:8765", MaxBody: 16 << 20, MaxConnections: 256, OAuth: OAuth{PrincipalClaim: "sub"},
		},
		Log: Log{Level: "info", Format: "text"},
	}
}
