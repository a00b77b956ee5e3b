package connector

import "strings"

// maxTokenBytes is more than any channel's token; Microsoft's have about 1.2 KB.
const maxTokenBytes = 16 << 10

// bearer reads the values of an Authorization header (RFC 6750): exactly one,
// of the word Bearer, one space and three parts of base64url.
func bearer(header []string) (string, error) {
	switch len(header) {
	case 0:
		return "", unauthorized("no authorization header")
	case 1:
	default:
		return "", unauthorized("more than one authorization header")
	}
	token, ok := strings.CutPrefix(header[0], "Bearer ")
	if !ok {
		return "", unauthorized("authorization is not Bearer")
	}
	if len(token) > maxTokenBytes {
		return "", unauthorized("token too long")
	}
	if !threeParts(token) {
		return "", unauthorized("bearer is no signed token")
	}
	return token, nil
}

func threeParts(token string) bool {
	dots, part := 0, 0
	for i := range len(token) {
		c := token[i]
		switch {
		case c == '.':
			if part == 0 {
				return false
			}
			dots, part = dots+1, 0
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			part++
		default:
			return false
		}
	}
	return dots == 2 && part > 0
}
