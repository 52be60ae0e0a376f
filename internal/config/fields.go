package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A field is one leaf of the configuration.
type field struct {
	key   string // dotted
	value reflect.Value
}

// fieldsOf lists the leaves of cfg in the order of the file.
func fieldsOf(cfg *Config) []field {
	return appendFields(nil, "", reflect.ValueOf(cfg).Elem())
}

func appendFields(fields []field, prefix string, v reflect.Value) []field {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("yaml")
		if v.Field(i).Kind() == reflect.Struct {
			fields = appendFields(fields, key+".", v.Field(i))
			continue
		}
		fields = append(fields, field{key: key, value: v.Field(i)})
	}
	return fields
}

// setText sets the field from one word; lists are separated by commas.
func (f field) setText(text string) error {
	switch target := f.value.Addr().Interface().(type) {
	case *[]string:
		*target = splitList(text)
		return nil
	case *[]Root:
		return parseList(target, text, parseRoot)
	case *[]Mount:
		return parseList(target, text, ParseMount)
	}
	return setScalar(f.value, text)
}

func splitList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func parseList[T any](target *[]T, text string, parse func(string) (T, error)) error {
	*target = nil
	for _, item := range splitList(text) {
		value, err := parse(item)
		if err != nil {
			return fmt.Errorf("%q: %w", item, err)
		}
		*target = append(*target, value)
	}
	return nil
}

// setScalar sets a leaf that is not a list.
func setScalar(v reflect.Value, text string) error {
	switch target := v.Addr().Interface().(type) {
	case *string:
		*target = text
		return nil
	case *Size:
		size, err := ParseSize(text)
		*target = size
		return err
	case *Duration:
		duration, err := ParseDuration(text)
		*target = duration
		return err
	case *bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*target = value
		return nil
	case *float64:
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		*target = value
		return nil
	case *int, *int64:
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(value)
		return nil
	}
	return errors.New("cannot be set this way")
}
