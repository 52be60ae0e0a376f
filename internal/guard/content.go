package guard

import (
	"mime"
	"net/http"
	"strings"
)

// checkContent demands plain JSON of every request that may have a body. A
// page of any site may send text/plain or a form without asking first, but not
// this type; and what is compressed has no size that could be bounded here.
func checkContent(r *http.Request) *refusal {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
		return nil
	}
	if !isJSON(r.Header.Values("Content-Type")) {
		return &refusal{
			status: http.StatusUnsupportedMediaType, reason: "content_type",
			text: "The Content-Type must be application/json.",
		}
	}
	for _, coding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return &refusal{
				status: http.StatusUnsupportedMediaType, reason: "content_encoding",
				text: "Compressed bodies are not accepted; send the JSON as it is.",
			}
		}
	}
	return nil
}

func isJSON(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	mediaType, parameters, err := mime.ParseMediaType(headers[0])
	if err != nil || mediaType != "application/json" {
		return false
	}
	charset, hasCharset := parameters["charset"]
	return len(parameters) == 0 || len(parameters) == 1 && hasCharset && strings.EqualFold(charset, "utf-8")
}
