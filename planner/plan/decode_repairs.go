package plan

import "slices"

// repairs is the set of what was repaired or stripped, one bit each.
type repairs uint32

const (
	repairedUTF8 repairs = 1 << iota
	strippedPrefix
	strippedReasoning
	strippedEndToken
	strippedFence
	strippedLabel
	strippedProse
	unwrappedString
	mergedPlans
	joinedCommands
	readToolCall
	repairedQuotes
	repairedCommas
	repairedColons
	repairedSpaces
	skippedComments
	repairedLiterals
	repairedNumbers
	repairedControls
	repairedEscapes
	joinedStrings
	quotedWords
	addedBrace
	droppedBrace
	mergedKeys
	droppedSay
	reshaped
	guessedStrings
	leftOutStep
)

// notStrict are the repairs of what is not strict JSON.
const notStrict = repairedQuotes | repairedCommas | repairedColons | repairedSpaces | skippedComments | repairedLiterals |
	repairedNumbers | repairedControls | repairedEscapes | joinedStrings | quotedWords | addedBrace | guessedStrings

// codes are the names of the bits of repairs, in their order.
var codes = [...]string{
	"utf8", "prefix", "reasoning", "end_token", "fence", "label", "prose", "json_string", "equal_plans",
	"bare_commands", "tool_call", "quotes", "commas", "colons", "spaces", "comments", "literals", "numbers",
	"control_characters", "escapes", "concatenation", "bare_words", "closing_brace", "extra_brace",
	"equal_keys", "empty_say", "shape", "unescaped_quotes", "missing_function",
}

// list returns the codes of the set, sorted; nil for none.
func (r repairs) list() []string {
	if r == 0 {
		return nil
	}
	var list []string
	for i, code := range codes {
		if r&(1<<i) != 0 {
			list = append(list, code)
		}
	}
	slices.Sort(list)
	return list
}

// codesOf returns the set that list names.
func codesOf(list []string) repairs {
	var set repairs
	for i, code := range codes {
		if slices.Contains(list, code) {
			set |= 1 << i
		}
	}
	return set
}
