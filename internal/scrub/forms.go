package scrub

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// begin is where a word begins: also behind what stands for one character in JSON or in an
// address, which ends in letters.
const begin = `(?:\b|\\(?:[bfnrt"/\\]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})`

const (
	// named are the last words of the names of secrets, in Latin letters.
	named = `(?:\w*(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|password|passwd|passphrase|passwort|kennwort|contraseña|pwd|token)|(?:\w+[_-])?sig)`
	// inHan are those which stand in no spaces.
	inHan = `(?:密码|密碼|口令|パスワード)`
	// quoted is a value between quotes, which may be written within quotes.
	quoted = `\\"[^"\\]*\\"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|` + "`[^`\n]*`"
	// bare is one without, and inQuery one in an address.
	bare    = `[^\s"'\\{}\[\]<>(*][^\s"'\\]+[^\s"'\\.,;:?)}\]<>*]`
	inQuery = `[^\s"'\\&,;<>{}\[\]()*]{2,}[^\s"'\\&,;<>{}\[\]()*.:?]`
)

// secretForm is a form of secrets: the first group stays, the second is the secret.
type secretForm struct {
	*regexp.Regexp
	// signs are parts, in small letters, of which each such text has one.
	signs []string
	// is reports whether that is one; nil: it always is.
	is func(value string) bool
	// learn says that it is a secret wherever else it stands, if it looks like one.
	learn bool
}

func form(expression string, signs ...string) secretForm {
	return secretForm{Regexp: regexp.MustCompile(expression), signs: signs}
}

// when is the form for such values only.
func (f secretForm) when(is func(value string) bool) secretForm {
	f.is = is
	return f
}

func (f secretForm) learned() secretForm {
	f.learn = true
	return f
}

// signs are in each name of a secret.
var signs = []string{"key", "secret", "pass", "kennwort", "contraseña", "pwd", "token", "sig"}

var secrets = []secretForm{
	form(`(?s)()(-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*-----|"|$))`, "private key"),
	form(`(`+begin+`)(eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)`, "eyj"),
	form(`(?i)(`+begin+`authorization\\?["']?\s*[:=]\s*\\?["']?)((?:\w+\s+)?[\w.~+/=-]{3,})`, "authorization"),
	form(`(?i)(`+begin+`(?:bearer|basic)\s+)([\w.~+/=-]{8,})`, "bearer", "basic").when(looksSecret),
	form(`(`+begin+`)((?:sk-[\w-]{16,}|[rs]k_(?:live|test)_\w{10,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_\w{20,}|npm_\w{20,}|pypi-[\w-]{20,}|`+
		`xox[abeprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{35}))`, "sk-", "k_live", "k_test", "gh", "glpat", "hf_", "npm_", "pypi-", "xox", "akia", "aiza"),
	form(`(`+begin+`)([\w~.-]{3}\dQ~[\w~.-]{20,})`, "q~"),
	form(`((?i)`+begin+`hooks\.slack\.com/\w+/)([\w/+-]+)`, "hooks.slack"),
	form(`((?i)`+begin+`[\w.-]*webhook\.office\.com/webhookb2/)([^\s"'<>\\]+)`, "webhook.office"),
	form(`(`+begin+`[A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"'<>]*:[^/\s@"'<>]+)@`, "://"),
	form(`(?i)(`+begin+named+`\\?["']?\s*=\s*)(`+quoted+`|\\?["']?`+inQuery+`)`, signs...).learned(),
	form(`(?i)(`+begin+named+`\\?["']?\s*[:：]\*{0,2}\s*)(`+quoted+`|\\?["']?`+bare+`)`, signs...).learned(),
	form(`(?i)(`+inHan+`\s*[:：=是为為は]\s*)(`+quoted+`|[!-~]{3,})`, "密", "口令", "パスワード").learned(),
	form(`(?i)(`+begin+`(?:password|passwort|kennwort|passphrase|contraseña|senha|pass|pwd)\s+(?:is|ist|lautet|es|è|é|est)\s+|`+begin+`pass\s*[:=]\s*)(`+quoted+`|`+bare+`)`, "pass", "kennwort", "contraseña", "senha", "pwd").
		when(looksSecret).learned(),
	form(`(?i)((?:^|\s)--?`+named+`\s+)(`+quoted+`|`+bare+`)`, signs...).when(isNoWordOfHelp).learned(),
}

var (
	mail = regexp.MustCompile(`((?:\\(?:[bfnrt"/\\]|u[0-9A-Fa-f]{4}))?)([\w\p{Latin}.+-]+@[\w\p{Latin}-]+(?:\.[\w\p{Latin}-]+)+)`)
	guid = regexp.MustCompile(`(?i)(` + begin + `)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)
	// account is a person's as Teams writes it, and place a conversation's.
	account = regexp.MustCompile(`(?i)(` + begin + `)(29(?::|%3a)[\w-]{16,}|8(?::|%3a)orgid(?::|%3a)[\w-]{16,})`)
	place   = regexp.MustCompile(`(?i)(` + begin + `)(19(?::|%3a)[\w-]{8,}(?:@|%40)[\w.]+|a(?::|%3a)1[\w-]{20,})`)

	// secretName is all of a name that is the name of a secret.
	secretName = regexp.MustCompile(`(?i)^(?:` + named + `|authorization|` + inHan + `)$`)
	// nameAtEnd is such a name with what stands between it and its value.
	nameAtEnd = regexp.MustCompile(`(?i)(?:(?:` + begin + named + `|` + begin + `authorization|` + inHan + `)\\?["']?\s*[:=：]\*{0,2}\s*|(?:^|\s)--?` + named + `\s+)$`)
)

// mayBeIn reports whether a text can have such a secret, given in small letters. It takes a
// hundredth of the time of looking.
func (f *secretForm) mayBeIn(small string) bool {
	return slices.ContainsFunc(f.signs, func(sign string) bool { return strings.Contains(small, sign) })
}

// looksSecret reports whether that is hardly a word of a sentence: it has digits, signs, or
// small and large letters.
func looksSecret(value string) bool {
	value = strings.TrimRight(value, "!")
	first := strings.IndexFunc(value, unicode.IsLetter)
	return strings.ContainsFunc(value, unicode.IsDigit) || strings.ContainsAny(value, "!@#$%^&*_+=~") ||
		strings.ContainsFunc(value, unicode.IsLower) && strings.ContainsFunc(value[max(first, 0)+min(1, len(value)):], unicode.IsUpper)
}

// isNoWordOfHelp reports whether that may be the value of a flag: people write about flags,
// too.
func isNoWordOfHelp(value string) bool {
	switch strings.ToLower(value) {
	case "flag", "option", "switch", "argument", "parameter", "value", "and", "for", "with", "from", "the", "must", "can", "has", "should":
		return false
	}
	return true
}
