package actions

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// numberOf returns the text of a number of any Go type that JSON values have.
func numberOf(value any) (string, bool) {
	switch value := value.(type) {
	case json.Number:
		return value.String(), isNumber(value.String())
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64), true
	case int:
		return strconv.Itoa(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	}
	return "", false
}

// isNumber reports whether text is a number in the grammar of JSON.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return json.Valid([]byte(text))
}

// maxZeros is how many zeros integer writes out for an exponent.
const maxZeros = 30

// integer writes a number without a point and an exponent, if it is whole: 4.0 is
// 4, 1.5e3 is 1500. No digit is lost, however long the number is.
func integer(text string) (string, bool) {
	if !strings.ContainsAny(text, ".eE") {
		return text, true
	}
	digits, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[at+1:]); err != nil {
			return "", false
		}
		digits = text[:at]
	}
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	if significant == "" {
		return "0", true
	}
	if exponent < 0 || exponent > maxZeros {
		return "", false
	}
	significant += strings.Repeat("0", exponent)
	if negative {
		significant = "-" + significant
	}
	return significant, true
}

// same reports whether an option of a schema and a value are the same JSON value.
func same(option, value any) bool {
	a, isNumber := numberOf(option)
	b, number := numberOf(value)
	if !isNumber || !number {
		return isNumber == number && reflect.DeepEqual(option, value)
	}
	if wholeA, ok := integer(a); ok {
		wholeB, ok := integer(b)
		return ok && wholeA == wholeB
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}
