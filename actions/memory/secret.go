package memory

import (
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/scrub"
)

// secret reports whether a text looks like it has a credential, a card number or an identity number.
// It rather sees one too many.
func secret(text string) bool {
	return strings.Contains(scrub.New().Text(text), scrub.Secret) && !strings.Contains(text, scrub.Secret) ||
		credential().MatchString(text) || access().MatchString(text) || identity().MatchString(text) || hasLongNumber(text)
}

// is stands between the name of a secret and the secret.
const is = `\s*(?:number|code|nummer|num[eé]ro)?\s*(?:is|are|[:：=#]|ist|lautet|es|est|è|é|は|是|为|為)\s*`

// credential matches the name of a secret with the secret behind it. Without a word between them the secret has
// a digit, unlike the manager of passwords.
var credential = lazy.Regexp(`(?i)(?:\b(?:pass(?:word|phrase|code|wd)|passwort|kennwort|contraseñas?|senha|mot de passe|parola d'ordine|` +
	`pin|puk|otp|cvv|cvc|api[ _-]?key|access[ _-]?key|private key|secret key|schlüssel|token|credentials?)|パスワード|暗証番号|密码|密碼|口令)(?:` + is + `["'“«]?[^\s"'”»]{3,}|\s+["'“«]?(?:[^\s\d]{3,}\d|[^\s\d]{2}\d\S|[^\s\d]?\d\S{2}))`)

// What has a code that opens it, what that code is called, and the code.
const (
	opened = `\b(?:door|gate|garage|safe|alarm|lock|house|entr(?:y|ance)|office|building|locker|bike|tür|haus|tor\b|tresor|schloss|puerta|caja fuerte|porta|porte|coffre|cassaforte)`
	code   = `(?:code|kode|combination|kombination|código|codice|combinación|nummer)\b`
	digits = `\d[\d -]{2,}`
)

// access matches codes of doors, passwords with the name of an account, and answers to secret questions.
var access = lazy.Regexp(`(?i)(?:` +
	`\b(?:log[ -]?in|sign[ -]?in|anmeldung|zugangsdaten|zugang|account|konto|user(?:name)?|benutzer(?:name)?)` + is + `\S+\s*[/|,;:]\s*\S*\d|` +
	opened + `[^.!?]{0,20}` + code + `[^.!?]{0,30}` + digits + `|` + code + `[^.!?]{0,20}` + opened + `[^.!?]{0,30}` + digits + `|` +
	digits + `[^.!?]{0,25}` + code + `[^.!?]{0,20}` + opened + `|` + digits + `[^.!?]{0,20}` + opened + `[^.!?]{0,5}` + code + `|` +
	`\b(?:secret|security|sicherheits?|geheime?)[ -]?(?:question|frage|answer|antwort|word|wort)\b.{0,80}?(?:[:=]|\b(?:is|ist|answer|antwort)\b)\s*\S)`)

// identity matches numbers that name a person: by what they are called, or by their form.
var identity = lazy.Regexp(`(?i)(?:\b(?:ssn|social security|sozialversicherung\w*|steuer-?id\w*|tax id|passport|reisepass|\w*ausweis\w*|id card|identity card|` +
	`driv(?:er|ing)'?s? licen[cs]e|führerschein\w*|pasaporte|passeport|passaporto|insee|carte d'identité|codice fiscale|iban|my number)|` +
	`マイナンバー|旅券|身份证|护照|身份證|護照)[^\d]{0,30}?[A-Z]{0,3}\d[A-Z0-9.-]{4,}|` +
	`\b\d{3}-\d{2}-\d{4}\b|` + // United States
	`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b|` + // IBAN
	`\b[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]\b|` + // Italy
	`\b(?:\d{8}|[XYZ]\d{7})-?[A-Z]\b|` + // Spain
	`\b[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b|` + // United Kingdom
	`\b\d{17}[\dX]\b`) // China

// number matches digits with what people put between them.
var number = lazy.Regexp(`\+?\d(?:[ .\-/]?\d){8,}`)

// hasLongNumber reports whether a text has the number of a card, or one too long to be anything but the
// number of a person or an account. Numbers of telephones, which begin with + or 0, and times are none.
func hasLongNumber(text string) bool {
	var wide strings.Builder
	for _, r := range text { // full-width and other digits count as well
		if unicode.IsDigit(r) && r > unicode.MaxASCII {
			r = '0' + digitOf(r)
		}
		wide.WriteRune(r)
	}
	text = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2009", " ", "\u2010", "-", "\u2011", "-", "\u2013", "-").Replace(wide.String())
	for _, found := range number().FindAllString(date().ReplaceAllString(text, ""), -1) {
		digits := strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, found)
		phone := strings.HasPrefix(found, "+") || strings.HasPrefix(found, "0")
		if hasCard(digits) && !strings.HasPrefix(found, "+") || !phone || len(digits) > 15 {
			return true
		}
	}
	return false
}

// digitOf is the value of a decimal digit of any script: each has its ten in a row, from a zero on.
func digitOf(r rune) rune {
	zero := r
	for r-zero < 9 && unicode.IsDigit(zero-1) {
		zero--
	}
	return (r - zero) % 10
}

// date matches dates and times, which are no numbers of anybody.
var date = lazy.Regexp(`\b(?:19|20)\d{2}[-./]\d{1,2}[-./]\d{1,2}\b|\b\d{1,2}[-./]\d{1,2}[-./](?:19|20)\d{2}\b|\b\d{1,2}:\d{2}(?::\d{2})?\b`)

// hasCard reports whether digits are, or hold, the number of a card: 13 to 19 of them with the check
// digit of Luhn.
func hasCard(digits string) bool {
	for size := 13; size <= min(19, len(digits)); size++ {
		for at := 0; at+size <= len(digits); at++ {
			if luhn(digits[at : at+size]) {
				return true
			}
		}
	}
	return false
}

// luhn reports whether the last digit is the check digit of the others.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
