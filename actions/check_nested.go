package actions

import (
	"maps"
	"slices"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// fitContents fits the elements of an array, or the properties of an object.
func (c *checker) fitContents(schema *jsonschema.Schema, value any) (any, bool, *EntityError) {
	switch value := value.(type) {
	case []any:
		return c.fitItems(schema, value)
	case map[string]any:
		return c.fitObject(schema, value)
	}
	return value, false, nil
}

func (c *checker) fitItems(schema *jsonschema.Schema, list []any) (any, bool, *EntityError) {
	if schema.Items == nil {
		return list, false, nil
	}
	copied := false
	for i, item := range list {
		fitted, changed, err := c.fit(schema.Items, item)
		if err != nil {
			return nil, false, err.within("[" + strconv.Itoa(i) + "]")
		}
		if !changed || !c.build {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i] = fitted
	}
	return list, copied, nil
}

// fitObject fits an object within the entities. One that schema does not allow
// to have more properties than it names keeps them all the same, as the entities
// themselves do. Null that says that a property is absent is as good as none: models
// that have to name every property write it so.
func (c *checker) fitObject(schema *jsonschema.Schema, object map[string]any) (any, bool, *EntityError) {
	for _, name := range schema.Required {
		if _, given := object[name]; !given && !hasDefault(schema, name) {
			return nil, false, (&EntityError{Want: "a value", Got: "none"}).within(name)
		}
	}
	if c.build {
		object = maps.Clone(object)
	}
	var fault *EntityError
	for name, value := range object {
		if value == nil && nullIsAbsent(schema, name) {
			if c.build {
				delete(object, name)
			}
			continue
		}
		property, within := schema.Properties[name], (*EntityError).within
		if property == nil {
			property, within = additional(schema), (*EntityError).withinUnnamed
		}
		fitted, _, err := c.fit(property, value)
		if err != nil {
			err = within(err, name)
			if fault == nil || err.Path < fault.Path {
				fault = err
			}
		} else if c.build {
			object[name] = fitted
		}
	}
	if fault != nil {
		return nil, false, fault
	}
	c.defaults(schema, object)
	return object, c.build, nil
}

// nullIsAbsent reports whether null says that a property is not there: where a
// default is, and where it may be left out and null is no value of it.
func nullIsAbsent(schema *jsonschema.Schema, name string) bool {
	property := schema.Properties[name]
	switch {
	case property == nil:
		return false
	case property.Default != nil:
		return true
	}
	return !slices.Contains(schema.Required, name) && !slices.Contains(typesOf(property), "null")
}

func hasDefault(schema *jsonschema.Schema, name string) bool {
	property := schema.Properties[name]
	return property != nil && property.Default != nil
}

// additional returns the schema of properties without a schema of their own: nil
// where anything, or nothing, is allowed.
func additional(schema *jsonschema.Schema) *jsonschema.Schema {
	if more := schema.AdditionalProperties; more != nil && more.Not == nil {
		return more
	}
	return nil
}

// fitChoices fits value to all of allOf, and to one of anyOf and of oneOf.
func (c *checker) fitChoices(schema *jsonschema.Schema, value any) (any, bool, *EntityError) {
	changed := false
	for _, part := range schema.AllOf {
		fitted, other, err := c.fit(part, value)
		if err != nil {
			return nil, false, err
		}
		value, changed = fitted, changed || other
	}
	for _, options := range [...][]*jsonschema.Schema{schema.AnyOf, schema.OneOf} {
		if options == nil {
			continue
		}
		fitted, other, err := c.fitOne(options, value)
		if err != nil {
			return nil, false, err
		}
		value, changed = fitted, changed || other
	}
	return value, changed, nil
}

// fitOne fits value to the first option that takes it as it is, else to the first
// that takes it converted.
func (c *checker) fitOne(options []*jsonschema.Schema, value any) (any, bool, *EntityError) {
	was := c.exact
	defer func() { c.exact = was }()
	var first *EntityError
	for _, exact := range [...]bool{true, was} {
		c.exact = exact
		for _, option := range options {
			fitted, changed, err := c.fit(option, value)
			if err == nil {
				return fitted, changed, nil
			}
			if first == nil || len(err.Path) > len(first.Path) {
				first = err // the deepest is the nearest miss
			}
		}
	}
	if first == nil {
		first = &EntityError{Want: "nothing", Got: describe(value)}
	}
	return nil, false, first
}
