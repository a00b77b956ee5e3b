package plan

// Steps returns how many bytes of text the reader of JSON has read when it was decoded.
func Steps(text string) int {
	text, _ = clean(text)
	a := newAnswer(text, nil)
	_ = a.scan()
	return a.reader.steps
}

// StrictSchema is the strict form of one action's schema.
var StrictSchema = strictSchema
