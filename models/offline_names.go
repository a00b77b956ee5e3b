package models

import (
	"regexp"
	"strings"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: a bot
// with a real model starts without paying for the rules.
type pattern func() *regexp.Regexp

func lazy(form string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
}

// cutLast cuts text around the last of the words, outside quotes; an earlier word
// of the list wins over a later one. The "to" of a "to do" list is no such word.
func cutLast(text string, words ...string) (before, after string, ok bool) {
	lower := asciiLower(text)
	for _, word := range words {
		for end := len(lower); ; {
			at := strings.LastIndex(lower[:end], word)
			if at < 0 {
				break
			}
			rest := lower[at+len(word):]
			todo := word == " to " && (rest == "do" || strings.HasPrefix(rest, "do list") || strings.HasPrefix(rest, "do to "))
			if !todo && strings.Count(text[:at], `"`)%2 == 0 {
				return strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+len(word):]), true
			}
			end = at
		}
	}
	return text, "", false
}

// asciiLower keeps every byte in its place, which strings.ToLower does not.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '\t' || c == '\n' || c == '\r':
			b[i] = ' '
		}
	}
	return string(b)
}

var (
	quoted     = lazy(`"([^"]*)"`)
	itemJoint  = lazy(`(?i)\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*|\s*\n\s*`)
	itemFiller = lazy(`(?i)^(?:(?:some|a|an|the|items?|and)\s+)+`)

	listDeterminer = lazy(`(?i)^(?:(?:the|my|our|your|a|an|this|that|another|new)(?:\s+|$))+`)
	listCalled     = lazy(`(?i)^(?:.*\s)?(?:list|checklist)\s+(?:called|named)\s+`)
	listBefore     = lazy(`(?i)^(?:list|checklist)(?:\s+(?:for|of)\b)?(?:\s+|$)`)
	listAfter      = lazy(`(?i)\s+list$`)
	listPronoun    = lazy(`(?i)^(?:it|that|there|them|this|one|list)$`)
)

// itemNames are the items of an enumeration. Quotes keep an item whole.
func itemNames(text string) []string {
	var kept []string
	text = quoted().ReplaceAllStringFunc(text, func(q string) string {
		kept = append(kept, q[1:len(q)-1])
		return "\x00"
	})
	var out []string
	for _, part := range itemJoint().Split(text, -1) {
		if strings.TrimSpace(part) == "\x00" && len(kept) > 0 {
			part, kept = kept[0], kept[1:]
		} else {
			part, kept = restore(plainItem(part), kept)
		}
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// restore puts the quoted texts that stood within part back, with their quotes.
func restore(part string, kept []string) (string, []string) {
	for strings.Contains(part, "\x00") && len(kept) > 0 {
		part = strings.Replace(part, "\x00", `"`+kept[0]+`"`, 1)
		kept = kept[1:]
	}
	return part, kept
}

// plainItem is an item without its article.
func plainItem(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 2 && text[0] == '"' && strings.Index(text[1:], `"`) == len(text)-2 {
		return strings.TrimSpace(text[1 : len(text)-1])
	}
	return strings.Trim(itemFiller().ReplaceAllString(text, ""), " .,;:!?")
}

// listName is the name in a phrase about a list, as the person wrote it: "my
// grocery shopping list" is grocery shopping. "" when it names none ("it").
func listName(text string) string {
	if m := quoted().FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	text = strings.Trim(text, " \t\r\n.,;:!?")
	text = listCalled().ReplaceAllString(text, "")
	text = listDeterminer().ReplaceAllString(text, "")
	if before := listBefore().ReplaceAllString(text, ""); before != text {
		text = listDeterminer().ReplaceAllString(before, "")
	}
	text = strings.TrimSpace(listAfter().ReplaceAllString(text, ""))
	if listPronoun().MatchString(text) {
		return ""
	}
	return text
}
