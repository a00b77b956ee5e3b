package pdftext

import (
	"bytes"
	"strconv"
)

// The objects of a PDF are nil, bool, int, float64, name, text, array, dict, *stream and ref.
type (
	name  string
	text  string
	array []any
	dict  map[name]any
	ref   struct{ number, generation int }
	op    string // what is none of these: a command of a page, or a word such as endobj
)

// stream is a dictionary with bytes, as they are in the file.
type stream struct {
	dict
	raw []byte
	id  ref
}

const maxNesting = 100 // limits arrays and dictionaries within each other

// lexer reads objects. It makes nothing that is larger than what it has read.
type lexer struct {
	data []byte
	at   int
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

func (l *lexer) space() {
	for l.at < len(l.data) {
		switch c := l.data[l.at]; {
		case isSpace(c):
			l.at++
		case c == '%':
			for l.at < len(l.data) && l.data[l.at] != '\n' && l.data[l.at] != '\r' {
				l.at++
			}
		default:
			return
		}
	}
}

// object reads the next object or word. ok is false at the end.
func (l *lexer) object(depth int) (o any, ok bool) {
	l.space()
	if l.at >= len(l.data) || depth > maxNesting {
		return nil, false
	}
	switch c := l.data[l.at]; {
	case c == '/':
		return l.name(), true
	case c == '(':
		return l.literal(), true
	case c == '<' && l.at+1 < len(l.data) && l.data[l.at+1] == '<':
		l.at += 2
		return l.dict(depth), true
	case c == '<':
		return l.hex(), true
	case c == '[':
		l.at++
		return l.array(depth), true
	case c == '>' && l.at+1 < len(l.data) && l.data[l.at+1] == '>':
		l.at += 2
		return op(">>"), true
	case isDelimiter(c):
		l.at++
		return op(c), true
	}
	return l.word(), true
}

func (l *lexer) word() any {
	start := l.at
	for l.at < len(l.data) && !isSpace(l.data[l.at]) && !isDelimiter(l.data[l.at]) {
		l.at++
	}
	w := l.data[start:l.at]
	c := w[0]
	if c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		if n, ok := number(w); ok {
			return n
		}
	}
	switch string(w) {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	return op(w)
}

// number reads what producers write for one, such as --5, 1.2.3 or 12-3.
func number(w []byte) (any, bool) {
	if n, err := strconv.Atoi(string(w)); err == nil {
		return n, true
	}
	negative, whole, fraction, scale, point := false, 0.0, 0.0, 1.0, false
	for i, c := range w {
		switch {
		case c == '-' && i > 0 && whole+fraction != 0:
			c = 0
		case c == '-':
			negative = true
			continue
		case c == '+' && i == 0:
			continue
		case c == '.' && !point:
			point = true
			continue
		case c < '0' || c > '9':
			if c != '.' {
				return nil, false
			}
			c = 0
		}
		if c == 0 {
			break
		}
		if point {
			scale /= 10
			fraction += float64(c-'0') * scale
		} else {
			whole = whole*10 + float64(c-'0')
		}
	}
	if negative {
		return -whole - fraction, true
	}
	return whole + fraction, true
}

func (l *lexer) name() name {
	l.at++
	start := l.at
	for l.at < len(l.data) && !isSpace(l.data[l.at]) && !isDelimiter(l.data[l.at]) {
		l.at++
	}
	w := l.data[start:l.at]
	if bytes.IndexByte(w, '#') < 0 {
		return name(w)
	}
	var out []byte
	for i := 0; i < len(w); i++ {
		if w[i] == '#' && i+2 < len(w) {
			if n, err := strconv.ParseUint(string(w[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, w[i])
	}
	return name(out)
}

func (l *lexer) literal() text {
	l.at++
	var out []byte
	for open := 1; l.at < len(l.data); l.at++ {
		c := l.data[l.at]
		switch c {
		case '(':
			open++
		case ')':
			open--
			if open == 0 {
				l.at++
				return text(out)
			}
		case '\r':
			if l.at+1 < len(l.data) && l.data[l.at+1] == '\n' {
				l.at++
			}
			c = '\n'
		case '\\':
			out = l.escape(out)
			continue
		}
		out = append(out, c)
	}
	return text(out)
}

// escape reads what follows a backslash.
func (l *lexer) escape(out []byte) []byte {
	if l.at++; l.at >= len(l.data) {
		return out
	}
	switch c := l.data[l.at]; c {
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '\n':
		return out
	case '\r':
		if l.at+1 < len(l.data) && l.data[l.at+1] == '\n' {
			l.at++
		}
		return out
	default:
		if c < '0' || c > '7' {
			return append(out, c)
		}
		n := 0
		for i := 0; i < 3 && l.at < len(l.data) && l.data[l.at] >= '0' && l.data[l.at] <= '7'; i++ {
			n = n*8 + int(l.data[l.at]-'0')
			l.at++
		}
		l.at--
		return append(out, byte(n))
	}
}

func (l *lexer) hex() text {
	l.at++
	var out []byte
	half, digits := byte(0), 0
	for ; l.at < len(l.data); l.at++ {
		c := l.data[l.at]
		if c == '>' {
			l.at++
			break
		}
		d, ok := hexDigit(c)
		if !ok {
			continue
		}
		if digits++; digits%2 == 0 {
			out = append(out, half<<4|d)
		}
		half = d
	}
	if digits%2 == 1 {
		out = append(out, half<<4)
	}
	return text(out)
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func (l *lexer) array(depth int) array {
	all := array{}
	for {
		o, ok := l.object(depth + 1)
		if !ok || o == op("]") || o == op("endobj") || o == op(">>") {
			return all
		}
		all = references(append(all, o))
	}
}

// references turns "12 0 R" at the end of a list into a reference.
func references(all array) array {
	n := len(all)
	if n < 3 || all[n-1] != op("R") {
		return all
	}
	number, isNumber := all[n-3].(int)
	generation, isGeneration := all[n-2].(int)
	if !isNumber || !isGeneration {
		return all[:n-1]
	}
	return append(all[:n-3], ref{number, generation})
}

func (l *lexer) dict(depth int) dict {
	d := dict{}
	var all array
	for {
		start := l.at
		o, ok := l.object(depth + 1)
		if o == op("endobj") || o == op("stream") {
			l.at = start
			ok = false
		}
		if !ok || o == op(">>") {
			break
		}
		all = references(append(all, o))
	}
	for i := 0; i+1 < len(all); {
		key, ok := all[i].(name)
		if !ok {
			i++
			continue
		}
		if _, twice := d[key]; !twice {
			d[key] = all[i+1]
		}
		i += 2
	}
	return d
}
