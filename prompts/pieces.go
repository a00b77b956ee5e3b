package prompts

// pieces is about how many tokens a text has more of than another with the same
// words: into so many pieces the tokenizer of o200k_base cuts it before it looks
// at its vocabulary. It takes a few nanoseconds a byte, and no vocabulary.
func pieces(text []byte) int {
	count := 0
	for i := 0; i < len(text); {
		spaces := runOf(text[i:], isSpace)
		i += spaces
		if spaces > 1 {
			count++ // all but the last one, which goes with what follows
		}
		if i == len(text) {
			break
		}
		switch c := text[i]; {
		case c == '\n':
			i++
		case isLetter(c):
			i += runOf(text[i:], isLetter)
		case isDigit(c):
			if spaces > 0 {
				count++ // but not with digits
			}
			i += min(3, runOf(text[i:], isDigit))
		default:
			i += runOf(text[i:], isMark)
			i += runOf(text[i:], isBreak)
		}
		count++
	}
	return count
}

func runOf(text []byte, class func(byte) bool) int {
	n := 0
	for n < len(text) && class(text[n]) {
		n++
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' }
func isBreak(c byte) bool { return c == '\n' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isMark(c byte) bool  { return !isSpace(c) && !isBreak(c) && !isDigit(c) && !isLetter(c) }
