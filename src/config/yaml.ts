/** What is read of YAML, in a module of its own: without a file and variables nothing is. */
export { isNode, LineCounter, parse, parseDocument } from 'yaml';
