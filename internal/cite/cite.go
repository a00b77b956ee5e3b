// Package cite makes the marks of sources that a model writes the marks that people read: numbered anew in
// each message, and only those of what was read.
package cite

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
// removes the marks of what is not in read, and those after [Most] sources. It leaves alone what only looks like a
// mark: in code and addresses, within words such as list[2], and with numbers that no source has, such as [2024].
func Text(text string, read []activity.Citation) (string, []activity.Citation) {
	var out strings.Builder
	var used []activity.Citation
	number := map[int]int{} // by the model's
	end := 0
	for _, at := range marks().FindAllStringSubmatchIndex(text, -1) {
		within := at[4] == at[5] && at[6] > end && text[at[6]-1] == ']' // list[2][1]: the brackets before were no mark
		if at[2] >= 0 || within || !stands(text, at[4], at[6], at[1]) { // code, or no mark
			continue
		}
		mark := text[at[6]:at[7]]
		if more := strings.IndexAny(mark, ":†"); more >= 0 {
			mark = mark[:more]
		}
		numbers := numbersIn(mark)
		if slices.ContainsFunc(numbers, isNoSource) {
			continue
		}
		out.WriteString(text[end:at[0]])
		end = at[1]
		kept := ""
		for _, n := range numbers {
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

// isNoSource reports whether a number is none of a source, however many there are.
func isNoSource(n int) bool { return n < 1 || n > 99 }

// stands reports whether brackets that begin at from and end at to stand where a mark does: behind what it
// supports, at the end of a word or a sentence. space is where the white space in front of them begins.
func stands(text string, space, from, to int) bool {
	if strings.HasPrefix(text[from:], "【") {
		return true // nobody else writes these
	}
	if space == from {
		before, size := utf8.DecodeLastRuneInString(text[:from])
		word := text[strings.LastIndexAny(text[:from], " \t\n")+1 : from]
		isName := before < utf8.RuneSelf && (before == '_' || unicode.IsLetter(before) || unicode.IsDigit(before)) || unicode.In(before, unicode.Latin, unicode.Greek, unicode.Cyrillic)
		isCall := strings.HasSuffix(word, "(") && len(word) > 1
		if size > 0 && (isName || isCall || strings.ContainsRune("/\\[{<=&?#$@%-", before) || strings.Contains(word, "://")) {
			return false
		}
	}
	after, size := utf8.DecodeRuneInString(text[to:])
	if after == '.' || after == ':' { // of the name of a file, or a definition
		after, size = utf8.DecodeRuneInString(text[to+1:])
	}
	isName := size > 0 && (after == '_' || unicode.In(after, unicode.Latin, unicode.Greek, unicode.Cyrillic) || unicode.IsDigit(after))
	return !isName && (size == 0 || !strings.ContainsRune("(/\\=", after))
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
	if text != "" && strings.ContainsAny(text[len(text)-1:], ".:") && strings.HasSuffix(text[:len(text)-1], "]") { // the name of a file may follow
		text = text[:len(text)-1]
	}
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
