package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// custom is a value with a form of its own.
type custom interface {
	read(r *reader, node any, p place)
}

// read fills what into points to from a node of the tree. The tags of its fields say what
// they are called, whether they are needed, and what they may be.
func (r *reader) read(into, node any, p place) { r.value(reflect.ValueOf(into).Elem(), node, p) }

func (r *reader) value(v reflect.Value, node any, p place) {
	if c, ok := v.Addr().Interface().(custom); ok {
		c.read(r, node, p)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if node == nil && v.Type().Elem().Kind() == reflect.String { // an error that there is none of
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		r.value(v.Elem(), node, p)
	case reflect.Interface:
		if node != nil {
			v.Set(reflect.ValueOf(node))
		}
	case reflect.Struct:
		r.object(v, node, p)
	case reflect.Slice:
		r.list(v, node, p)
	case reflect.Map:
		r.entries(v, node, p)
	default:
		r.scalar(v, node, p)
	}
}

func (r *reader) scalar(v reflect.Value, node any, p place) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := node.(string); ok {
			v.SetString(text)
			return
		}
		r.fault(p, "want a text, not %s", kindOf(node))
	case reflect.Bool:
		if truth, ok := node.(bool); ok {
			v.SetBool(truth)
			return
		}
		r.fault(p, "want true or false, not %s", kindOf(node))
	case reflect.Int:
		if n, ok := wholeNumber(node); ok {
			v.SetInt(n)
			return
		}
		r.fault(p, "want a whole number, not %s", kindOf(node))
	case reflect.Float64:
		number, _ := node.(json.Number)
		if n, err := number.Float64(); err == nil {
			v.SetFloat(n)
			return
		}
		r.fault(p, "want a number, not %s", kindOf(node))
	}
}

// wholeNumber reads 3, 3.0 and 3e0 alike.
func wholeNumber(node any) (int64, bool) {
	number, ok := node.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := number.Int64(); err == nil {
		return n, true
	}
	f, err := number.Float64()
	const most = 1 << 53
	return int64(f), err == nil && f == float64(int64(f)) && f < most && f > -most
}

func (r *reader) list(v reflect.Value, node any, p place) {
	list, ok := node.([]any)
	if !ok {
		r.fault(p, "want a list, not %s", kindOf(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list))) // empty is not nil
	for i, one := range list {
		at := p.at(i)
		switch v.Type().Elem() {
		case reflect.TypeFor[Step]():
			at = p
			at.step, at.field = fmt.Sprintf("step %d", i+1), ""
		case reflect.TypeFor[Delivery]():
			at.step, at.field = fmt.Sprintf("%s, parallel %d", p.step, i+1), ""
		}
		r.value(v.Index(i), one, at)
	}
}

func (r *reader) entries(v reflect.Value, node any, p place) {
	if _, part := v.Interface().(map[string]any); part && node == nil {
		return // activities have null in their lists
	}
	object, ok := node.(map[string]any)
	if !ok {
		r.fault(p, "want an object, not %s", kindOf(node))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := reflect.New(v.Type().Elem()).Elem()
		r.value(one, object[name], p.in(name))
		v.SetMapIndex(reflect.ValueOf(name), one)
	}
}

func (r *reader) object(v reflect.Value, node any, p place) {
	object, ok := node.(map[string]any)
	if !ok {
		r.fault(p, "want an object, not %s", kindOf(node))
		return
	}
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(object)) {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("json") == name })
		if i < 0 {
			r.fault(p.in(name), "there is no such field; there are: %s", namesOf(fields))
			continue
		}
		field := v.FieldByIndex(fields[i].Index)
		before := len(r.faults)
		r.value(field, object[name], p.in(name))
		if len(r.faults) == before {
			r.bounds(field, fields[i].Tag, p.in(name))
		}
	}
	for _, f := range fields {
		if _, there := object[f.Tag.Get("json")]; !there && f.Tag.Get("need") == "true" {
			r.fault(p.in(f.Tag.Get("json")), "is missing")
		}
	}
}

// fieldsOf are the fields that have a name in files.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		name := f.Tag.Get("json")
		return name == "" || name == "-"
	})
}

func namesOf(fields []reflect.StructField) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Tag.Get("json"))
	}
	return strings.Join(names, ", ")
}

// bounds holds a value to the tags enum, min and max.
func (r *reader) bounds(v reflect.Value, tag reflect.StructTag, p place) {
	v = reflect.Indirect(v)
	if words := tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), v.String()) {
		r.fault(p, "want %s, not %q", strings.ReplaceAll(words, ",", " or "), v.String())
	}
	var n float64
	switch {
	case v.CanInt():
		n = float64(v.Int())
	case v.CanFloat():
		n = v.Float()
	default:
		return
	}
	if least, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil && n < least {
		r.fault(p, "want at least %s, not %v", tag.Get("min"), n)
	}
	if most, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil && n > most {
		r.fault(p, "want at most %s, not %v", tag.Get("max"), n)
	}
}

func (a *Answer) read(r *reader, node any, p place) {
	if text, ok := node.(string); ok {
		a.Text = &text
		return
	}
	if _, ok := node.(map[string]any); !ok {
		r.fault(p, "want a text or an object, not %s", kindOf(node))
		return
	}
	type plain Answer
	r.read((*plain)(a), node, p)
	if a.HTTP == 0 && a.HangMS == 0 && a.Code == "" {
		r.fault(p, "says no failure: want http, code or hang_ms")
	}
	if a.Code != "" && a.HTTP >= 200 && a.HTTP <= 299 {
		r.fault(p.in("code"), "is of a failure, and http is %d", a.HTTP)
	}
}

func (w *Within) read(r *reader, node any, p place) {
	if _, ok := node.(json.Number); ok {
		w.All = new(int)
		r.read(w.All, node, p)
		return
	}
	r.read(&w.ByID, node, p)
}

func (o *Order) read(r *reader, node any, p place) {
	if word, ok := node.(string); ok {
		if o.Either = word == "either"; !o.Either {
			r.fault(p, "want either or a list of ids, not %q", word)
		}
		return
	}
	r.read(&o.IDs, node, p)
}

// kindOf names what a node is.
func kindOf(node any) string {
	switch node := node.(type) {
	case nil:
		return "null"
	case string:
		return "the text " + strconv.Quote(node)
	case bool, json.Number:
		return fmt.Sprint(node)
	case []any:
		return "a list"
	}
	return "an object"
}
