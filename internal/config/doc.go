// Package config knows the configuration's shape, its defaults and its rules.
//
// [Load] lays the sources over each other (flag, then BIOCAGE_ environment
// variable, then file, then default) and reports every fault at once, each
// with the place it came from and its key. It opens no file and reads no
// environment itself: package main hands both in. It checks what can be known
// from the text alone; whether a path exists is found out at the start.
package config
