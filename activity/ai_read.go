package activity

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// position is the number of a citation; 0: none that can be read.
type position int

// texts is a list of strings, or one alone.
type texts []string

// readable reads a root entity that somebody else wrote: a member of another kind than it
// should be counts as one that is not there, so that it takes nothing else with it.
var readable = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(only[string]('"')),
	json.UnmarshalFromFunc(only[[]claim]('[')),
	json.UnmarshalFromFunc(only[claim]('{')),
	json.UnmarshalFromFunc(only[appearance]('{')),
	json.UnmarshalFromFunc(only[usageInfo]('{')),
	json.UnmarshalFromFunc(readTexts),
	json.UnmarshalFromFunc(readPosition),
)))

// only reads values of that kind, and skips others.
func only[T any](kind jsontext.Kind) func(*jsontext.Decoder, *T) error {
	return func(dec *jsontext.Decoder, _ *T) error {
		if dec.PeekKind() == kind {
			return errors.ErrUnsupported
		}
		return dec.SkipValue()
	}
}

func readTexts(dec *jsontext.Decoder, into *texts) error {
	switch dec.PeekKind() {
	case '[':
		return errors.ErrUnsupported
	case '"':
		*into = texts{""}
		return json.UnmarshalDecode(dec, &(*into)[0])
	}
	return dec.SkipValue()
}

// readPosition takes 2, 2.0 and "2".
func readPosition(dec *jsontext.Decoder, into *position) error {
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64)
	if err == nil && n == math.Trunc(n) && math.Abs(n) <= math.MaxInt32 {
		*into = position(n)
	}
	return nil
}
