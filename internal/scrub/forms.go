package scrub

import (
	"regexp"

	"github.com/planbot-go/planbot/internal/lazy"
)

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
