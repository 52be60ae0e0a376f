// Package guard stands in front of every HTTP handler and decides who may
// reach it.
//
// A browser runs the pages of strangers and can reach this machine; any local
// process can, too. So [Guard.Wrap] lets a request through only when its Host
// is a name of this server (which stops DNS rebinding), its Origin is absent
// or allowed, its body is plain JSON, and it carries a bearer token: one of
// the configured or generated ones, or, with an OAuth issuer, an access token
// made by that issuer for this server. There is no way to switch the token
// off. [Principal] tells the handlers whose it was.
//
// Options are the texts of the configuration; [Options.Faults] is everything
// that is wrong with them and needs no machine to find out. A Guard starts no
// goroutines: keys of an issuer are fetched by the request that needs them,
// while others go on with those that are there. All its tables are bounded.
package guard
