// Package cite makes the marks of sources that a model writes the marks that people read: numbered anew in
// each message, and only those of what was read.
package cite

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/lazy"
)

// Most is how many sources a message may have, in Teams.
const Most = 20

// marks matches code, and the marks of sources with the space before them: [1], [1, 2], [1-3], [^1] and 【1†source】.
var marks = lazy.Regexp("(?s)(````.*?(?:````|\\z)|```.*?(?:```|\\z)|``.*?``|`[^`\n]*`|(?m:^[ \t]*)~~~.*?(?:\n[ \t]*~~~|\\z))|" +
	`([ \t]*)(\[ ?\^?` + numbers + `(?:\s*[,;]\s*\^?` + numbers + `)* ?\]|【` + numbers + `(?:\s*[,，、;]\s*` + numbers + `)*(?:[:†][^】\n]{0,200})?】)`)

// numbers matches a number, or a range such as 1-3. One of years is none.
const numbers = `(?:\d{1,2}\s*[-–]\s*\^?\d{1,2}|\d{1,4})`

var digits = lazy.Regexp(`(\d+)(?:\s*[-–]\s*\^?(\d+))?`)

// unfinished matches what may become a mark, or code, at the end of a text that grows.
var unfinished = lazy.Regexp("[ \t]*(?:\\[[\\^\\d,; \t–-]*|【[^】\n]{0,210}|`+)?$")

// Text numbers the marks of a text in the order of their first use, and returns the sources in that order. It
// removes the marks of what is not in read, and those after [Most] sources. It leaves code alone.
func Text(text string, read []activity.Citation) (string, []activity.Citation) {
	var out strings.Builder
	var used []activity.Citation
	number := map[int]int{} // by the model's
	end := 0
	for _, at := range marks().FindAllStringSubmatchIndex(text, -1) {
		isCode, isLink := at[2] >= 0, at[1] < len(text) && text[at[1]] == '('
		if isCode || isLink {
			continue
		}
		out.WriteString(text[end:at[0]])
		end = at[1]
		mark := text[at[6]:at[7]]
		if more := strings.IndexAny(mark, ":†"); more >= 0 {
			mark = mark[:more]
		}
		kept := ""
		for _, n := range numbersIn(mark) {
			if number[n] == 0 && n >= 1 && n <= len(read) && len(used) < Most {
				source := read[n-1]
				source.Title = cmp.Or(strings.TrimSpace(source.Title), "Source "+strconv.Itoa(n))
				used = append(used, source)
				number[n] = len(used)
			}
			if one := "[" + strconv.Itoa(number[n]) + "]"; number[n] > 0 && !strings.Contains(kept, one) {
				kept += one
			}
		}
		if kept != "" {
			out.WriteString(text[at[4]:at[5]] + kept)
		}
	}
	return out.String() + text[end:], used
}

// numbersIn lists the numbers of a mark, with those within a range.
func numbersIn(mark string) (all []int) {
	for _, m := range digits().FindAllStringSubmatch(mark, -1) {
		first, _ := strconv.Atoi(m[1])
		last, _ := strconv.Atoi(m[2]) // 0: it is no range
		for n := first; n <= max(first, last); n++ {
			all = append(all, n)
		}
	}
	return all
}

// Beginning is [Text] for the beginning of a text. It holds back what the rest of the text decides about.
func Beginning(text string, read []activity.Citation) string {
	last := 0 // the end of the last code or mark
	for _, at := range marks().FindAllStringIndex(text, -1) {
		last = at[1]
	}
	switch open := strings.IndexByte(text[last:], '`'); {
	case open >= 0: // code that has not ended
		text = text[:last+open]
	case last == len(text): // a link may follow
		text = strings.TrimRight(text, "0123456789,;^–- []")
	}
	text, _ = Text(text[:unfinished().FindStringIndex(text)[0]], read)
	return text
}
