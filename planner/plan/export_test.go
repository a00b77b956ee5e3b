package plan

// Steps returns how many steps decoding text takes, as far as they may be more
// than one a byte.
func Steps(text string) int {
	text, _ = clean(text)
	s, _ := surveyOf(text)
	return s.reader.steps
}

// StrictSchema is the strict form of one action's schema.
var StrictSchema = strictSchema
