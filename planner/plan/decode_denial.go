package plan

import (
	"strings"
	"unicode"
)

// maxBeside is how much of the prose behind a plan is looked at.
const maxBeside = 2000

var errDenied = Faultf(InvalidPlan, "the text beside the plan says that it is not meant to run; answer with the plan alone, or with plain text")

// isDenied reports whether the text beside a plan says that it is an example,
// somebody else's, not to run, or not yet. It knows how this is said in English,
// and errs on the side of refusing: then the model is asked again.
func isDenied(before, behind string) bool {
	same := strings.TrimRight(before, " ")
	if strings.HasSuffix(same, "~~") && !strings.HasSuffix(same, "~~~") && strings.HasPrefix(strings.TrimLeft(behind, " "), "~~") {
		return true // struck out
	}
	line, listed := introduction(before)
	return listed || isForeign(line) || deniesNext(line) || hasAny(words(behind[:min(len(behind), maxBeside)]), retractions[:])
}

// introduction is the last line with words before a plan, and whether the plan
// stands in a list of changes.
func introduction(before string) (line string, listed bool) {
	for before != "" {
		at := strings.LastIndexByte(before, '\n')
		line := strings.TrimFunc(before[at+1:], isBlank)
		language, isFence := fence(line)
		switch {
		case isFence && (strings.EqualFold(language, "diff") || strings.EqualFold(language, "patch")):
			return "", true
		case !isFence && strings.ContainsFunc(line, unicode.IsLetter):
			return line[max(0, len(line)-maxBeside):], false
		}
		before = before[:max(at, 0)]
	}
	return "", false
}

// others are whose text it is that such a label or tag introduces, or what for.
var others = map[string]bool{
	"user": true, "human": true, "customer": true, "system": true, "observation": true, "input": true, "question": true,
	"query": true, "request": true, "example": true, "quote": true, "blockquote": true, "original": true, "context": true,
	"history": true, "del": true, "s": true, "strike": true, "q": true,
}

// isForeign reports whether a line is a label, or ends in a tag, of the text of
// somebody else.
func isForeign(line string) bool {
	line = strings.Trim(line, "`*_~#-+• \t")
	if strings.HasSuffix(line, ">") {
		name, _, _ := strings.Cut(strings.TrimSuffix(line[strings.LastIndexByte(line, '<')+1:], ">"), " ")
		return others[strings.ToLower(name)]
	}
	label := strings.Fields(words(line))
	if !strings.HasSuffix(line, ":") || len(label) > 2 {
		return false
	}
	for _, word := range label {
		if others[word] {
			return true
		}
	}
	return false
}

// denials introduce what is not meant to run, and retractions take back what
// stands before them.
var (
	denials = [...]string{
		"example", "examples", "e g", "for instance", "instead of", "wrong", "incorrect", "if you wanted", "i would", "user wrote", "you wrote",
		"user said", "you said", "message contains", "should i", "shall i", "may i", "do you want me to",
	}
	retractions = [...]string{
		"cancel that", "cancel this", "cancel it", "never mind", "nevermind", "scratch that", "on second thought", "rather not",
		"i will not", "i won't", "i'll not", "i would not", "i wouldn't", "not run", "not execute", "don't run", "don't execute",
		"not do this", "not do that", "not do it", "should i run", "should i proceed", "should i continue", "should i go",
		"shall i run", "shall i proceed", "shall i continue", "shall i go", "do you want me to run", "do you want me to proceed",
		"please confirm", "before i", "without your", "i need the", "i need you", "i need to know", "i first need", "i still need",
		"an example", "not meant to run",
	}
	// harmless follows a not that says nothing of the plan: "I do not see it yet".
	harmless = map[string]bool{
		"find": true, "see": true, "have": true, "know": true, "sure": true, "exist": true, "only": true, "just": true, "worry": true,
		"hesitate": true, "on": true, "in": true, "there": true, "say": true, "said": true, "given": true, "specify": true, "specified": true,
		"mention": true, "mentioned": true,
	}
)

// deniesNext reports whether a line says that what comes next is not meant.
func deniesNext(line string) bool {
	text := words(line)
	if hasAny(text, denials[:]) {
		return true
	}
	list := strings.Fields(text)
	for i, word := range list {
		negates := word == "not" || word == "never" || word == "cannot" || word == "dont" || strings.HasSuffix(word, "n't")
		if negates && (i+1 == len(list) || !harmless[list[i+1]]) {
			return true
		}
	}
	return false
}

// words are the words of a text in lower case, with a space around each.
func words(text string) string {
	var out strings.Builder
	out.WriteByte(' ')
	for word := range strings.FieldsFuncSeq(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(c rune) bool {
		return c != '\'' && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		out.WriteString(strings.Trim(word, "'") + " ")
	}
	return out.String()
}

// hasAny reports whether any of the phrases is among the words.
func hasAny(words string, phrases []string) bool {
	for _, phrase := range phrases {
		if strings.Contains(words, " "+phrase+" ") {
			return true
		}
	}
	return false
}
