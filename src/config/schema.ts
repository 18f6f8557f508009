import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import { coreConfig } from './core.ts';
import type { Environment, EnvironmentReading } from './env.ts';
import type { SchemaNode } from './node.ts';

/** The parts of a plugin that the configuration needs. */
export interface ConfigSection {
  readonly id: string;
  readonly config: TObject;
  /** Reads variables beside `PARHELION_*`; only of plugins that are loaded. */
  readonly environment?: (env: Environment) => EnvironmentReading;
}

/** Names of kernel sections, which plugins cannot use. */
export const coreSections: readonly string[] = Object.keys(coreConfig.properties);

/** The closed schema of the whole configuration: the kernel's sections and one per plugin. */
export function assembleSchema(sections: readonly ConfigSection[]): TObject {
  const properties: Record<string, TSchema> = { ...coreConfig.properties };
  for (const section of sections) properties[section.id] = section.config;
  return Type.Object(properties, { additionalProperties: false });
}

/**
 * Problems of a plugin's schema, as sentences: it must be closed, and each field needs a description and a default, so that the
 * configuration is self-documenting and an empty section is valid. Fields of list items are not checked.
 */
export function sectionProblems(schema: SchemaNode, path = 'config'): string[] {
  if (schema.type !== 'object' || schema.properties === undefined) return [`${path} is not an object schema`];
  const problems: string[] = [];
  if (schema.additionalProperties !== false) problems.push(`${path} is not closed (additionalProperties: false)`);
  for (const [key, field] of Object.entries(schema.properties)) {
    const fieldPath = `${path}.${key}`;
    if (field.type === 'object' && field.properties !== undefined) {
      problems.push(...sectionProblems(field, fieldPath));
      continue;
    }
    if (!field.description) problems.push(`${fieldPath} has no description`);
    if (!('default' in field)) problems.push(`${fieldPath} has no default`);
  }
  return problems;
}
