package plan

// What OpenAI takes as a strict schema, by its guide of 2026. A larger one would
// be refused whole.
const (
	maxSchemaProperties = 5000
	maxSchemaDepth      = 10 // of objects within objects
	maxSchemaOptions    = 1000
	maxSchemaText       = 120_000 // names of properties and values of enums, in bytes
	maxOptionsText      = 15_000  // of the values of one enum, if it is longer than manyOptions
	manyOptions         = 250
)

// fits reports whether a schema is within these limits.
func fits(f *form) bool {
	s := schemaSize{}
	return s.add(f, 0) && s.properties <= maxSchemaProperties && s.options <= maxSchemaOptions && s.text <= maxSchemaText
}

type schemaSize struct{ properties, options, text int }

// add counts f at a depth of objects. It is false for what is too large by itself.
func (s *schemaSize) add(f *form, depth int) bool {
	if f == nil {
		return true
	}
	if f.Properties != nil {
		depth++
	}
	if depth > maxSchemaDepth || !s.addOptions(f.Enum) || !s.add(f.Items, depth) {
		return false
	}
	s.properties += len(f.Properties)
	for _, p := range f.Properties {
		s.text += len(p.name)
		if !s.add(p.form, depth) {
			return false
		}
	}
	for _, branch := range f.AnyOf {
		if !s.add(branch, depth) {
			return false
		}
	}
	return true
}

func (s *schemaSize) addOptions(values []any) bool {
	text := 0
	for _, value := range values {
		if value, ok := value.(string); ok {
			text += len(value)
		}
	}
	s.options += len(values)
	s.text += text
	return len(values) <= manyOptions || text <= maxOptionsText
}
