package models

import (
	"strings"
)

// reader reads one message. Either it understands the whole of it and has deeds,
// or it has none; ask is what it has to know first.
type reader struct {
	earlier func() string // the list that was spoken of before this message; may be nil
	deeds   []deed
	list    string // the list that was spoken of last in this message
	ask     string
}

// read fills in deeds, or ask, or neither when some part of text means nothing.
func (r *reader) read(text string) {
	if len(text) > maxOfflineText {
		return
	}
	for _, clause := range clauses(plainQuotes.Replace(text)) {
		if clause = trimClause(clause); clause == "" {
			continue
		}
		if !r.readClause(clause) {
			r.deeds = nil
			return
		}
	}
	if r.ask == "" && len(r.deeds) > maxDeeds {
		r.ask = "That is a lot at once. Please send it in smaller parts."
	}
}

var plainQuotes = strings.NewReplacer("\x00", "", "“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "’", "'")

const verbs = `create|make|start|set up|add|put|append|buy|pick up|remove|delete|erase|drop|take|check|tick|cross|mark|rename|find|search|look for|where|what|what's|which|show|list|read|summari[sz]e|get rid of`

// joint is a place where a new clause begins: a verb after the end of a sentence,
// a comma, or an "and".
var joint = lazy(`(?i)(?:[.;!?]\s|\n|,|\s)\s*(?:(?:and|then|also|please)\s+)+(?:` + verbs + `)\s|(?:[.;!?]\s|\n|,)\s*(?:` + verbs + `)\s`)

// clauses cuts text where a new request begins, never inside quotes.
func clauses(text string) []string {
	var out []string
	start := 0
	for _, at := range joint().FindAllStringIndex(text+" ", -1) {
		if strings.Count(text[:at[0]], `"`)%2 == 0 && at[0] > start {
			out = append(out, text[start:at[0]])
			start = at[0] + 1
		}
	}
	return append(out, text[start:])
}

var (
	opening = lazy(`(?i)^(?:(?:please|kindly|can you|could you|would you|will you|i want you to|i want to|i'd like to|i would like to|i need to|we need to|let's|now|also|then|and|so|ok|okay|hey|hi|hello|bot|planbot)(?:[\s,:]+|$))+`)
	closing = lazy(`(?i)(?:[\s,]+(?:please|thanks|thank you|for me|for us))+$`)
)

func trimClause(c string) string {
	const ends = " \t\r\n.,;!?"
	c = strings.Trim(c, ends)
	c = opening().ReplaceAllString(c, "")
	c = closing().ReplaceAllString(c, "")
	return strings.Trim(c, ends)
}

// rule reads clauses of one form; ok false leaves them to the rules after it.
type rule struct {
	form pattern
	read func(r *reader, rest string) (ok bool)
}

// rules are tried in order. The last group of a form that matched is the rest.
var rules = []rule{
	{clauseForm(`(?:which|what) lists? (?:has|have|holds?|contains?) (.+)`), (*reader).find},
	{clauseForm(`(?:which|what) lists? (?:is|are) (.+?)(?: on| in)?`), (*reader).find},
	{clauseForm(`(?:find|search for|search|look for|look up|locate|where is|where are|where's|where did (?:i|we) put) (.+)`), (*reader).find},
	{clauseForm(`(?:is|are|do (?:i|we) have|is there|are there) (?:any |some )?(.+ (?:on|in) .*\blists?)`), (*reader).find},
	{clauseForm(`(?:what|what's|which|how many) .*\blists?(?: .*)?()`), (*reader).summarize},
	{clauseForm(`(?:show|read|display|open|view|print|see|list|give|tell|summari[sz]e) (?:\S+ ){0,6}lists?()`), (*reader).summarize},
	{clauseForm(`check (?:all )?(?:my|our|the|all) lists?()`), (*reader).summarize},
	{clauseForm(`(?:(?:show|list)(?: me| us)? (?:everything|all|all items)|(?:all )?(?:my |our |the )?lists|summari[sz]e)()`), (*reader).summarize},
	{clauseForm(`(?:create|make|start|set up|open|begin|new)(?: me| us)? (.+)`), (*reader).create},
	{clauseForm(`(?:delete|remove|erase|drop|trash|get rid of|throw away) (.+)`), (*reader).deleteList},
	{clauseForm(`(?:rename|change the name of) (.+)`), (*reader).rename},
	{clauseForm(`(?:check|tick|cross|strike)(?: off| out)? (.+)`), (*reader).check},
	{clauseForm(`mark (.+)`), (*reader).check},
	{clauseForm(`(?:i|we)(?: have|'ve)?(?: already)? (?:bought|got|finished|done) (.+)`), (*reader).check},
	{clauseForm(`(?:remove|delete|erase|drop|take(?: off| out| away)?|get rid of) (.+)`), (*reader).remove},
	{clauseForm(`(?:add|put|append|include) (.+)`), (*reader).add},
	{clauseForm(`(?:buy|pick up|(?:we're|we are|i'm|i am) out of) (.+)`), (*reader).buy},
}

func clauseForm(form string) pattern { return lazy(`(?is)^` + form + `$`) }

func (r *reader) readClause(clause string) bool {
	for _, rule := range rules {
		m := rule.form().FindStringSubmatch(clause)
		if m != nil && rule.read(r, strings.TrimSpace(m[len(m)-1])) {
			return true
		}
	}
	return false
}

func (r *reader) find(rest string) bool {
	rest = onMyLists().ReplaceAllString(rest, "")
	item := plainItem(rest)
	if item == "" {
		return false
	}
	r.do(deed{action: findItem, item: item})
	return true
}

var onMyLists = lazy(`(?i)\s+(?:on|in)(?:\s+\S+)*\s+lists?$`)

func (r *reader) summarize(string) bool {
	r.do(deed{action: summarizeLists})
	return true
}

var wordList = lazy(`(?i)\b(?:list|checklist)\b`)

func (r *reader) create(rest string) bool {
	if !wordList().MatchString(rest) {
		return false
	}
	name, with, _ := cutLast(rest, " with ", " containing ", " including ", ": ")
	list := listName(name)
	if list == "" {
		r.ask = "What shall I call the list?"
		return true
	}
	r.list = list
	r.do(deed{action: createList, list: list, items: itemNames(with)})
	return true
}

func (r *reader) deleteList(rest string) bool {
	_, _, from := cutLast(rest, " from ", " off of ", " off ", " out of ")
	if from || !wordList().MatchString(rest) {
		return false
	}
	list := r.named(rest)
	if list != "" {
		r.do(deed{action: deleteList, list: list})
	}
	return true
}

func (r *reader) rename(rest string) bool {
	from, to, ok := cutLast(rest, " to ", " into ", " as ")
	name := listName(to)
	if !ok || name == "" {
		return false
	}
	if list := r.named(from); list != "" {
		r.do(deed{action: renameList, list: list, name: name})
		r.list = name
	}
	return true
}

var doneWord = lazy(`(?i)\s+(?:as\s+)?(?:done|bought|complete|completed|finished|off)$`)

func (r *reader) check(rest string) bool {
	rest = doneWord().ReplaceAllString(rest, "")
	items, list, _ := cutLast(rest, " from ", " off of ", " off ", " on ", " in ")
	return r.each(checkItem, doneWord().ReplaceAllString(items, ""), list)
}

func (r *reader) remove(rest string) bool {
	items, list, _ := cutLast(rest, " from ", " off of ", " off ", " out of ")
	return r.each(removeItem, items, list)
}

func (r *reader) add(rest string) bool {
	items, list, ok := cutLast(rest, " to ", " on ", " onto ", " in ", " into ")
	if !ok {
		items, list = rest, ""
	}
	return r.each(addItem, items, list)
}

// buy is for the list that was spoken of last, else for the shopping list.
func (r *reader) buy(rest string) bool {
	list := r.spokenOf()
	if list == "" {
		list = "shopping"
	}
	return r.each(addItem, rest, `"`+list+`"`)
}

// each does action for every item.
func (r *reader) each(action, items, list string) bool {
	names := itemNames(items)
	if len(names) == 0 {
		return false
	}
	name := r.named(list)
	if name == "" {
		return true
	}
	for i, item := range names {
		r.do(deed{action: action, list: name, item: item, followUp: i > 0})
	}
	return true
}

func (r *reader) do(d deed) { r.deeds = append(r.deeds, d) }

// named is the list that text means: by its name, or as the one spoken of last
// ("it", "the list", nothing). When it cannot tell, it is "" and asks.
func (r *reader) named(text string) string {
	list := listName(text)
	if list == "" {
		list = r.spokenOf()
	}
	if list == "" {
		r.ask = "Which list do you mean? Please say it with the list's name."
		return ""
	}
	if strings.EqualFold(list, "all") || strings.HasSuffix(strings.ToLower(list), "lists") {
		r.ask = "I can do that with one list at a time. Please say its name."
		return ""
	}
	r.list = list
	return list
}

func (r *reader) spokenOf() string {
	if r.list == "" && r.earlier != nil {
		r.list = r.earlier()
	}
	return r.list
}
