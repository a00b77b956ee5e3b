// Package scrub replaces what must not be in a file that people share: secrets, and who and where
// people are. Each id and name has one stand-in, so the text still makes sense. It finds what looks
// like a secret and the people it knows of. It does not find other people, or numbers of
// telephones, accounts and cards.
package scrub

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/internal/lazy"
)

// Secret stands for every secret.
const Secret = "[secret]"

// The kinds of ids, which begin their stand-ins.
const (
	Person       = "user"
	Conversation = "conversation"
	Activity     = "activity"
	Tenant       = "tenant"
)

const (
	leastID = 6 // the shortest id that is replaced in texts: a local client may call a person "1"
	// leastName is how many letters the shortest replaced part of a name has, and leastFolded the
	// shortest one that is replaced in any letter case.
	leastName, leastFolded = 3, 4
	// maxKnown limits the stand-ins. Later ids get the last one of their kind.
	maxKnown = 10_000
)

// Scrubber knows the stand-ins; [New] makes one. It is safe for concurrent use.
type Scrubber struct {
	mu      sync.Mutex
	secrets Secrets
	ids     bool              // ids of people and places stay
	known   map[string]string // stand-ins by what they stand for
	last    map[string]int    // numbers by kind
	words   words
}

// New returns a scrubber that knows these secrets. It ignores very short ones.
func New(secrets ...string) *Scrubber {
	return &Scrubber{secrets: NewSecrets(secrets...), known: map[string]string{}, last: map[string]int{}}
}

// Secrets are secrets, however programs write them; [NewSecrets] makes them. They are safe for concurrent use.
type Secrets struct {
	forms []string // the longest first
	find  *regexp.Regexp
}

// NewSecrets returns these secrets, but very short ones, also as hex, and as base64, which may begin at each of three
// places of something longer.
func NewSecrets(secrets ...string) Secrets {
	var forms []string
	for _, one := range secrets {
		if len(one) < leastID {
			continue
		}
		inHex := hex.EncodeToString([]byte(one))
		forms = append(forms, one, strings.ReplaceAll(one, " ", "+"), inHex, strings.ToUpper(inHex))
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for before := range 3 {
				whole := alphabet.EncodeToString([]byte(strings.Repeat("\x00", before) + one))
				core := strings.TrimRight(whole[(before*8+5)/6:], "=")
				if (before+len(one))%3 != 0 {
					core = core[:len(core)-1] // it depends on what follows
				}
				forms = append(forms, whole, strings.TrimRight(whole, "="), core)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	forms = slices.Compact(forms)
	var literal []string
	for _, form := range forms {
		literal = append(literal, regexp.QuoteMeta(form))
	}
	return Secrets{forms, regexp.MustCompile(strings.Join(literal, "|"))}
}

const maxEscapes = 4 // limits how often a text may be escaped

// Hide replaces the secrets in a text, whichever of their characters are escaped, as in JSON, in addresses and in HTML.
func (s Secrets) Hide(text string) string {
	for _, form := range s.forms {
		text = strings.ReplaceAll(text, form, Secret)
	}
	if len(s.forms) == 0 || !strings.ContainsAny(text, escapeSigns) {
		return text
	}
	plain, begin := text, []int(nil)
	for range maxEscapes {
		if plain, begin = unescape(plain, begin); begin == nil {
			break
		}
		if !slices.ContainsFunc(s.forms, func(form string) bool { return strings.Contains(plain, form) }) {
			continue
		}
		var out strings.Builder
		from := 0
		for _, m := range s.find.FindAllStringIndex(plain, -1) {
			end := m[1]
			for begin[end] == begin[end-1] { // of one escape
				end++
			}
			out.WriteString(text[from:max(from, begin[m[0]])] + Secret)
			from = begin[end]
		}
		text = out.String() + text[from:]
		plain, begin = text, nil
	}
	return text
}

const (
	escapeSigns = `\%&` // each escape begins with one of these
	maxEscape   = 12    // how many bytes the longest one has
)

// escaped matches a character that is not written as itself, at the beginning of a text.
var escaped = lazy.Regexp(`^(?:\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|` +
	`\\["\\/bfnrt]|\\x[0-9A-Fa-f]{2}|` +
	`%[0-9A-Fa-f]{2}|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,6});)`)

// unescape takes the escapes out of a text. begin says where each byte of the text, and its end, is in the text that it was
// made of, and the same of what is returned; nil: there, which is returned if nothing was escaped.
func unescape(text string, begin []int) (plain string, at []int) {
	var out strings.Builder
	add := func(part string, from, step int) {
		out.WriteString(part)
		for i := range len(part) {
			if n := from + i*step; begin == nil {
				at = append(at, n)
			} else {
				at = append(at, begin[n])
			}
		}
	}
	from := 0
	for next := 0; ; {
		to := strings.IndexAny(text[next:], escapeSigns)
		if to < 0 {
			break
		}
		to += next
		one := escaped().FindString(text[to:min(len(text), to+maxEscape)])
		next = to + max(1, len(one))
		if one != "" {
			add(text[from:to], from, 1)
			add(meaning(one), to, 0)
			from = next
		}
	}
	if from == 0 {
		return text, nil
	}
	add(text[from:], from, 1)
	if begin == nil {
		return out.String(), append(at, len(text))
	}
	return out.String(), append(at, begin[len(text)])
}

// meaning is the character that is escaped.
func meaning(escaped string) (text string) {
	switch {
	case escaped[0] == '&':
		return html.UnescapeString(escaped)
	case escaped[0] == '%' || escaped[1] == 'x':
		text, _ = url.PathUnescape("%" + escaped[len(escaped)-2:]) // two digits
	default:
		_ = json.Unmarshal([]byte(`"`+escaped+`"`), &text) // an escape of JSON
	}
	return text
}

// NewForSecrets returns a scrubber that replaces secrets only: names and ids stay.
func NewForSecrets(secrets ...string) *Scrubber {
	s := New(secrets...)
	s.ids = true
	return s
}

// ID returns the stand-in of an id of that kind: "user-1" for the first person. "" stays "".
func (s *Scrubber) ID(kind, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id(kind, id)
}

// Keep sets the stand-in of an account, such as the bot.
func (s *Scrubber) Keep(id, standIn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[Person+"\x00"+id] = standIn
	s.wantID(id, standIn)
}

func (s *Scrubber) id(kind, id string) string {
	if id == "" {
		return ""
	}
	key := kind + "\x00" + id
	if known := s.known[key]; known != "" {
		return known
	}
	if len(s.known) >= maxKnown {
		return fmt.Sprintf(forms[kind], s.last[kind])
	}
	s.last[kind]++
	standIn := fmt.Sprintf(forms[kind], s.last[kind])
	s.known[key] = standIn
	if kind != Activity { // nobody writes those
		s.wantID(id, standIn)
	}
	return standIn
}

// wantID replaces an id from now on, also as it is written in an address.
func (s *Scrubber) wantID(id, standIn string) {
	if len(id) < leastID || id == standIn {
		return
	}
	for _, form := range []string{id, url.QueryEscape(id), inAddress().ReplaceAllStringFunc(url.QueryEscape(id), strings.ToLower)} {
		s.words.want(form, standIn, false)
	}
}

var inAddress = lazy.Regexp(`%[0-9A-F]{2}`)

// forms are the stand-ins by kind.
var forms = map[string]string{
	Person: "user-%d", Conversation: "conversation-%d", Activity: "activity-%d", Tenant: "tenant-%d",
	guidKind: "00000000-0000-0000-0000-%012d", mailKind: "person-%d@example.com",
}

const guidKind, mailKind = "guid", "mail"

// Name returns the stand-in of the person with that id. From now on it replaces the name and each
// word of it.
func (s *Scrubber) Name(id, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	standIn := s.id(Person, cmp.Or(id, name))
	s.words.wantName(name, standIn)
	return standIn
}

// Version changes when texts may have other stand-ins than before.
func (s *Scrubber) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.n
}

// Text returns the text with stand-ins. If the text is or contains a JSON document, Text replaces
// in what its strings mean, and in JSON inside them. Strings without anything to replace stay byte
// by byte, and JSON stays JSON. A nil scrubber changes nothing.
func (s *Scrubber) Text(text string) string {
	if s == nil || text == "" {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text(text)
}

// Value replaces in a tree of maps, lists and texts as [Scrubber.Text] does in its JSON. A nil
// scrubber changes nothing.
func (s *Scrubber) Value(tree any) (clean any) {
	if s == nil {
		return tree
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return Secret // better nothing than something unseen
	}
	d := json.NewDecoder(strings.NewReader(s.Text(string(raw))))
	d.UseNumber()
	_ = d.Decode(&clean) // JSON stays JSON
	return clean
}

const maxPasses = 8 // limits how often text looks at a text

// text replaces until nothing is left to replace: one replacement may uncover another.
func (s *Scrubber) text(text string) string {
	for range maxPasses {
		was := text
		if text = s.pass(text); text == was {
			break
		}
	}
	return text
}

// inLine matches what may be a JSON document in a line.
var inLine = lazy.Regexp(`\{.*\}`)

// pass replaces once: in JSON, if that is all of the text or there is some in its lines, and in
// what is around it.
func (s *Scrubber) pass(text string) string {
	if strings.ContainsAny(text[:min(1, len(text))], `"[{`) && json.Valid([]byte(text)) {
		return s.document(text)
	}
	if !strings.Contains(text, "{") {
		return s.plain(text)
	}
	out, from := "", 0
	for _, at := range inLine().FindAllStringIndex(text, -1) {
		if object := text[at[0]:at[1]]; json.Valid([]byte(object)) {
			out += s.plain(text[from:at[0]]) + s.document(object)
			from = at[1]
		}
	}
	return out + s.plain(text[from:])
}

// document replaces in the strings of JSON.
func (s *Scrubber) document(text string) string {
	var out strings.Builder
	from, secret := 0, false // whether the last string is the name of a secret
	between := func(gap string) {
		if secret { // its value may be a number
			gap = numberBehind().ReplaceAllString(gap, "${1}0")
		}
		out.WriteString(gap)
	}
	for {
		at := strings.IndexByte(text[from:], '"')
		if at < 0 {
			break
		}
		gap, end := text[from:from+at], from+at+stringLen(text[from+at:])
		raw := text[from+at : end]
		between(gap)
		out.WriteString(s.literal(raw, secret && strings.TrimSpace(gap) == ":"))
		from = end
		isName := strings.HasPrefix(strings.TrimLeft(text[from:], " \t\r\n"), ":") // of the value behind it
		secret = isName && secretName().MatchString(unquoted(raw))
	}
	between(text[from:])
	return out.String()
}

// stringLen returns the length of the JSON string that a text begins with, quotes included.
func stringLen(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

var numberBehind = lazy.Regexp(`^(\s*:\s*)-?\d[\d.eE+-]{3,}`)

// literal returns a JSON string as it was unless something in it is replaced. isSecret replaces all
// of it.
func (s *Scrubber) literal(raw string, isSecret bool) string {
	was := unquoted(raw)
	is := was
	switch {
	case isSecret && was != "":
		s.learn(was)
		is = Secret
	case !isSecret:
		is = s.text(was)
	}
	if is == was {
		return raw
	}
	quoted, _ := jsontext.AppendQuote(nil, is) // what is no UTF-8 becomes U+FFFD
	return string(quoted)
}

func unquoted(literal string) (text string) {
	if !strings.Contains(literal, `\`) && utf8.ValidString(literal) {
		return literal[1 : len(literal)-1]
	}
	_ = json.Unmarshal([]byte(literal), &text) // it is a JSON string
	return text
}

// plain replaces in a text that is not JSON.
func (s *Scrubber) plain(text string) string {
	text = s.secrets.Hide(text)
	small := strings.ToLower(text)
	mayHave := func(sign string) bool { return strings.Contains(small, sign) } // a hundred times as fast as the expression
	for i := range secrets {
		if slices.ContainsFunc(secrets[i].signs, mayHave) {
			text = s.hide(&secrets[i], text)
		}
	}
	if slices.ContainsFunc(valueSigns, mayHave) {
		for i := range values {
			text = s.hide(&values[i], text)
		}
	}
	if s.ids {
		return s.words.replace(text)
	}
	if strings.ContainsAny(text, ":%") {
		text = s.replaceForm(account(), Person, text)
		text = s.replaceForm(place(), Conversation, text)
	}
	if strings.Contains(text, "@") {
		text = s.replaceForm(mail(), mailKind, text)
	}
	text = s.words.replace(text)
	if strings.Count(text, "-") >= 4 {
		text = s.replaceForm(guid(), guidKind, text)
	}
	return text
}

// replaceForm replaces ids of that kind, which are the second group of the form.
func (s *Scrubber) replaceForm(form *regexp.Regexp, kind, text string) string {
	return form.ReplaceAllStringFunc(text, func(found string) string {
		m := form.FindStringSubmatch(found)
		before, id := m[1], m[2]
		if isStandIn(id) {
			return found
		}
		if kind == mailKind {
			id = strings.ToLower(id)
		}
		if plain, err := url.PathUnescape(id); err == nil {
			id = plain
		}
		return before + s.id(kind, id)
	})
}

// hide replaces secrets of that form.
func (s *Scrubber) hide(f *secretForm, text string) string {
	return f.find().ReplaceAllStringFunc(text, func(found string) string {
		m := f.find().FindStringSubmatch(found)
		before, value := m[1], m[2]
		inner := strings.Trim(value, "\\\"'`")
		if inner == Secret || inner == "" || f.odd && !oddWord().MatchString(inner) || value == inner && sentence().MatchString(value) {
			return found
		}
		if f.learn {
			s.learn(inner)
		}
		at := strings.Index(value, inner)
		return before + value[:at] + Secret + value[at+len(inner):] + found[len(before)+len(value):]
	})
}

// learn replaces a secret from now on, unless it may be a word.
func (s *Scrubber) learn(value string) {
	if len(value) >= leastID && strings.ContainsFunc(value, unicode.IsDigit) && strings.ContainsFunc(value, unicode.IsLetter) && !strings.Contains(value, Secret) {
		s.words.want(value, Secret, false)
	}
}

func isStandIn(text string) bool {
	return strings.HasSuffix(text, "@example.com") || strings.HasPrefix(text, "00000000-0000-0000-0000-") ||
		strings.Contains(text, Secret)
}

// begin matches where a word begins, also after an escape of JSON or of an address.
const begin = `(?:\b|\\(?:[bfnrt"/\\]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})`

const (
	// named matches names of secrets in Latin letters.
	named = `(?:\w*(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|password|passwd|passphrase|passwort|kennwort|contraseña|pwd|token)|(?:\w+[_-])?sig)`
	// inHan matches names of secrets in scripts without spaces.
	inHan = `(?:密码|密碼|口令|パスワード)`
	// quoted matches a value in quotes, which may be inside other quotes.
	quoted = `\\"[^"\\]*\\"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|` + "`[^`\n]*`"
	// bare matches a value without quotes, and inQuery one in an address.
	bare    = `[^\s"'\\{}\[\]<>(*][^\s"'\\]+[^\s"'\\.,;:?)}\]<>*]`
	inQuery = `[^\s"'\\&,;<>{}\[\]()*]{2,}[^\s"'\\&,;<>{}\[\]()*.:?]`
)

// secretForm is what a secret looks like: the first group stays, the second is the secret.
type secretForm struct {
	find  func() *regexp.Regexp
	signs []string // each text with such a secret has one of these, in lower case
	odd   bool     // only an oddWord counts as the secret
	learn bool     // the value is a secret wherever else it appears, if it looks like one
}

// sentence matches how a sentence begins or goes on, as in "invalid_api_key: the server…": nobody has such a secret.
var sentence = lazy.Regexp(`(?i)^(?:the|this|that|these|there|your|you|our|any|and|but|for|from|with|was|were|has|have|had|not|cannot|can|could|` +
	`should|must|may|will|please|incorrect|invalid|missing)$`)

// oddWord matches what is hardly a word of a sentence: with digits, signs, or mixed case.
var oddWord = lazy.Regexp(`[\d@#$%^&*_+=~]|!+[^!]|\p{Ll}.*\p{Lu}|\p{Lu}.*\p{Lu}.*\p{Ll}`)

func form(expression string, signs ...string) secretForm {
	return secretForm{find: lazy.Regexp(expression), signs: signs}
}

// valueForm is the form of a value behind the name of a secret. It has no signs: those are valueSigns.
func valueForm(expression string) secretForm {
	f := form(expression)
	f.learn = true
	return f
}

// oddForm is f for odd words only.
func oddForm(f secretForm) secretForm {
	f.odd = true
	return f
}

var secrets = []secretForm{
	form(`(?s)()(-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*-----|"|$))`, "private key"),
	form(`(`+begin+`)(eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)`, "eyj"),
	form(`(?i)(`+begin+`authorization\\?["']?\s*[:=]\s*\\?["']?)((?:\w+\s+)?[\w.~+/=-]{3,})`, "authorization"),
	oddForm(form(`(?i)(`+begin+`(?:bearer|basic)\s+)([\w.~+/=-]{8,})`, "bearer", "basic")),
	form(`(`+begin+`)((?:sk-[\w-]{16,}|[rs]k_(?:live|test)_\w{10,}|(?:gh[pousr]_|github_pat_|hf_|npm_)\w{20,}|glpat-[\w-]{16,}|`+
		`pypi-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{35}))`, "sk-", "k_", "gh", "glpat", "hf_", "npm_", "pypi-", "xox", "akia", "aiza"),
	form(`(`+begin+`)([\w~.-]{3}\dQ~[\w~.-]{20,})`, "q~"),
	form(`((?i)`+begin+`(?:hooks\.slack\.com/\w+|[\w.-]*webhook\.office\.com/webhookb2)/)([^\s"'<>\\]+)`, "hooks.slack", "webhook.office"),
	form(`(`+begin+`[A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"'<>]*:[^/\s@"'<>]+)@`, "://"),
}

// values are the forms of values behind the names of secrets. Each text with one has one of valueSigns,
// in lower case.
var values = []secretForm{
	valueForm(`(?i)(` + begin + named + `\\?["']?\s*=\s*)(` + quoted + `|\\?["']?` + inQuery + `)`),
	valueForm(`(?i)(` + begin + named + `\\?["']?\s*[:：]\*{0,2}\s*)(` + quoted + `|\\?["']?` + bare + `)`),
	valueForm(`(?i)(` + inHan + `\s*[:：=是为為は]\s*)(` + quoted + `|[!-~]{3,})`),
	oddForm(valueForm(`(?i)(` + begin + `(?:password|passwort|kennwort|passphrase|contraseña|senha|pass|pwd)\s+(?:is|ist|lautet|es|è|é|est)\s+|` +
		begin + `pass\s*[:=]\s*)(` + quoted + `|` + bare + `)`)),
	valueForm(`(?i)((?:^|\s)--?` + named + `\s+)(` + quoted + `|` + bare + `)`),
}

var valueSigns = []string{"key", "secret", "pass", "kennwort", "contraseña", "senha", "pwd", "token", "sig", "密", "口令", "パスワード"}

var (
	mail = lazy.Regexp(`((?:\\(?:[bfnrt"/\\]|u[0-9A-Fa-f]{4}))?)([\w\p{Latin}.+-]+@[\w\p{Latin}-]+(?:\.[\w\p{Latin}-]+)+)`)
	guid = lazy.Regexp(`(?i)(` + begin + `)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)
	// account matches a person's id in Teams, and place a conversation's.
	account = lazy.Regexp(`(?i)(` + begin + `)(29(?::|%3a)[\w-]{16,}|8(?::|%3a)orgid(?::|%3a)[\w-]{16,})`)
	place   = lazy.Regexp(`(?i)(` + begin + `)(19(?::|%3a)[\w-]{8,}(?:@|%40)[\w.]+|a(?::|%3a)1[\w-]{20,})`)

	// secretName matches a whole name of a secret.
	secretName = lazy.Regexp(`(?i)^(?:` + named + `|authorization|` + inHan + `)$`)
)

// words are replaced in texts. The zero value has none.
type words struct {
	n     int
	known map[rune][]word // by first letter
}

// word is replaced by its standIn; with fold in any letter case.
type word struct {
	text, standIn string
	fold          bool
}

// want adds a text, up to maxKnown.
func (w *words) want(text, standIn string, fold bool) {
	if w.n >= maxKnown || text == "" || !utf8.ValidString(text) || reserved().MatchString(text) {
		return
	}
	if w.known == nil {
		w.known = map[rune][]word{}
	}
	if fold {
		text = strings.ToLower(text)
	}
	first, _ := utf8.DecodeRuneInString(text)
	list, one := w.known[unicode.ToLower(first)], word{text, standIn, fold}
	if !slices.ContainsFunc(list, func(known word) bool { return known.text == text && known.fold == fold }) {
		w.n++
		w.known[unicode.ToLower(first)] = append(list, one)
	}
}

// reserved matches words of stand-ins and of plans, which must stay readable.
var reserved = lazy.Regexp(`(?i)^(?:(?:user|conversation|activity|tenant|person)(?:-\d+)?|secret|example|com|` +
	`plan|type|commands|do|say|action|entities|parameters|response|saveas|observe|true|false|null)$`)

// ordinary matches names that are common words in lower case.
var ordinary = lazy.Regexp(`(?i)^(?:april|august|bill|chase|dawn|dean|drew|faith|frank|grace|grant|hope|iris|jack|june|july|king|lane|list|long|mark|page|park|pearl|pierce|price|rich|rose|ruby|stone|wade|ward|west|will|wood|young)$`)

func (w *words) wantName(name, standIn string) {
	name = strings.TrimSpace(name)
	parts := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '\'' })
	for _, word := range parts {
		word = strings.Trim(word, "-'")
		n := utf8.RuneCountInString(word)
		if n >= leastName || n > 1 && !isSpaced(lastRune(word)) {
			w.want(word, standIn, n >= leastFolded && !ordinary().MatchString(word))
		}
	}
	if len(parts) > 1 {
		w.want(strings.Join(strings.Fields(name), " "), standIn, true)
	} else if utf8.RuneCountInString(name) < leastName || reserved().MatchString(name) { // only where prompts say who writes
		w.want(`is from "`+name+`"`, `is from "`+standIn+`"`, false)
	}
}

// replace replaces known words, the longest first.
func (w *words) replace(text string) string {
	var out strings.Builder
	from := 0
	for at, first := range text {
		if at < from {
			continue
		}
		end, standIn := at, ""
		for _, one := range w.known[unicode.ToLower(first)] {
			if to := at + one.length(text[at:]); to > end && isWord(text, at, to) {
				end, standIn = to, one.standIn
			}
		}
		if end > at {
			out.WriteString(text[from:at] + standIn)
			from = end
		}
	}
	return out.String() + text[from:]
}

// length is how many bytes at the start of the text are the word; 0: none. Any white space may
// separate the words of a name.
func (w *word) length(text string) int {
	if !w.fold {
		if strings.HasPrefix(text, w.text) {
			return len(w.text)
		}
		return 0
	}
	at := 0
	for _, want := range w.text {
		r, n := utf8.DecodeRuneInString(text[at:])
		if unicode.ToLower(r) != want && !(want == ' ' && unicode.IsSpace(r)) {
			return 0
		}
		at += n
		if want == ' ' {
			at = len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
		}
	}
	return at
}

// isWord reports whether a match is a word of its own: no letter or digit of a script with spaces
// touches it, except the end of an escape.
func isWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	after, _ := utf8.DecodeRuneInString(text[to:])
	goesOn := func(a, b rune) bool {
		return isPart(a) && isPart(b) && isSpaced(a) && isSpaced(b)
	}
	begins := !goesOn(before, first) || escapeAtEnd().MatchString(text[max(0, from-len(`\u00fc`)):from])
	return begins && !goesOn(lastRune(text[from:to]), after)
}

var escapeAtEnd = lazy.Regexp(`(?:\\(?:[bfnrt]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})$`)

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

func isPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// isSpaced reports whether the script of r has spaces between words.
func isSpaced(r rune) bool {
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
