import { stringify } from 'yaml';
import type { LoadedConfig } from './load.ts';
import { maskSecrets } from './mask.ts';
import type { SchemaNode } from './node.ts';
import { describeSchema } from './validate.ts';

const WIDTH = 118;

interface DocumentOptions {
  /** Header text, without `#`. */
  readonly header: string;
}

/** The commented configuration: every key of a schema with its description, what it accepts, and its default. */
export function renderConfigDocument(schema: SchemaNode, options: DocumentOptions): string {
  const lines = options.header.split('\n').map((line) => `# ${line}`.trimEnd());
  for (const [key, field] of Object.entries(schema.properties ?? {})) {
    if (field.renamedTo !== undefined) continue;
    lines.push('', ...renderField(key, field, 0));
  }
  return `${lines.join('\n')}\n`;
}

function renderField(key: string, field: SchemaNode, depth: number): string[] {
  const indent = '  '.repeat(depth);
  if (field.type === 'object' && field.properties !== undefined) {
    const inner = Object.entries(field.properties).flatMap(([name, child]) =>
      child.renamedTo === undefined ? renderField(name, child, depth + 1) : [],
    );
    const title = field.description === undefined ? [] : wrap(field.description, indent);
    // A section without keys must still be a section.
    return [...title, `${indent}${key}:${inner.length === 0 ? ' {}' : ''}`, ...inner];
  }
  const text = `${field.description ?? ''}${accepts(field)}${noteOf(field)}`;
  return [...wrap(text, indent), `${indent}${key}: ${scalar(field.default)}`];
}

const RELOAD_NOTES = new Map<SchemaNode['reloadable'], string>([
  [true, ' [reload]'],
  ['set', ' [reload, if set]'],
]);

const noteOf = ({ reloadable }: SchemaNode): string => RELOAD_NOTES.get(reloadable) ?? '';

/** The accepted values, as far as the default does not show them. */
function accepts(field: SchemaNode): string {
  const choices = (field.anyOf ?? []).every((branch) => 'const' in branch || branch.type === 'null');
  if (field.anyOf !== undefined && choices) return ` [${describeSchema(field)}]`;
  if (field.minimum !== undefined && field.maximum !== undefined) return ` [${field.minimum} to ${field.maximum}]`;
  return '';
}

function wrap(text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = `${indent}#`;
  for (const word of text.split(/\s+/)) {
    if (line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = `${indent}#`;
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

function scalar(value: unknown): string {
  return stringify(value === undefined ? null : value, { collectionStyle: 'flow', lineWidth: 0 }).trimEnd();
}

/** The effective configuration as YAML or JSON, with secrets masked. */
export function dumpConfig(config: LoadedConfig, format: 'yaml' | 'json'): string {
  const masked = maskSecrets(config.schema, config.values);
  return format === 'json' ? `${JSON.stringify(masked, null, 2)}\n` : stringify(masked, { lineWidth: 0 });
}
