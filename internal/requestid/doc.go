// Package requestid names one request of a client, so that everything that is
// told of it can be found: the lines of the log, the line of the audit log,
// and the incident that an answer speaks of. The transport makes the id, the
// context carries it, and [Handler] adds it to the log.
package requestid
