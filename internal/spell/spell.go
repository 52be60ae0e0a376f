// Package spell guesses which known name a misspelt one means.
package spell

import "strings"

// maxWord bounds what is compared: a longer word is no misspelt name.
const maxWord = 64

// Nearest gives the known name that word most probably means, or "": one that
// is few edits away, or one that begins or ends like it.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	if len(word) > maxWord {
		return ""
	}
	best, limit := "", len(word)/3+1
	for _, name := range known {
		if d := distance(word, strings.ToLower(name)); d <= limit {
			best, limit = name, d-1
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, name := range known {
		if strings.HasPrefix(name, word) || strings.HasPrefix(word, name) || strings.HasSuffix(name, "_"+word) {
			return name
		}
	}
	return ""
}

// distance is the Levenshtein distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := previous
			if a[i] != b[j] {
				cost++
			}
			previous = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
