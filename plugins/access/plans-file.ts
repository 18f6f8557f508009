/** A plans file, and what is wrong with one: what needs YAML and Ajv. */

import { readFileSync } from 'node:fs';
import type { TSchema } from '@sinclair/typebox';
import { Ajv } from 'ajv';
import { CodedError, EXIT, messageOf } from '../../src/lib/coded-error.ts';
import { isPlainSchema, matches } from '../../src/lib/plain-schema.ts';
import { readYaml } from '../../src/lib/yaml.ts';
import { ACCESS_ERRORS } from './config.ts';
import { createPlans, type Plans, type PlansFile, PUBLISHED_PLANS, plansSchema } from './plans.ts';

/** Reads the plans file; null: the published plans. Errors: ACCESS_PLANS_INVALID, exit 78. */
export function loadPlans(path: string | null): Plans {
  if (path === null) return createPlans(PUBLISHED_PLANS);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw invalid(path, [messageOf(error)]);
  }
  const reading = readYaml(text);
  if (reading.kind === 'faulty') throw invalid(path, reading.problems);
  const problems = problemsOf(plansSchema, reading.value);
  if (problems.length > 0) throw invalid(path, problems);
  return createPlans(reading.value as PlansFile);
}

function invalid(path: string, problems: readonly string[]): CodedError {
  const message = `${ACCESS_ERRORS.ACCESS_PLANS_INVALID}: ${path}: ${problems.join('; ')}`;
  return new CodedError('ACCESS_PLANS_INVALID', message, { exitCode: EXIT.config, facts: { file: path, problems } });
}

const NO_FORMATS = new Map<string, never>();

/** All problems of a value, each with its path; empty if it is valid. */
export function problemsOf(schema: TSchema, value: unknown): readonly string[] {
  if (isPlainSchema(schema) && matches(schema, value, NO_FORMATS)) return [];
  const ajv = new Ajv({ strict: false, allErrors: true, code: { optimize: false } });
  const check = ajv.compile(schema);
  if (check(value)) return [];
  const lines = (check.errors ?? [])
    // Skip the errors of the branches of a union; the union itself reports one.
    .filter(({ keyword }) => keyword !== 'anyOf')
    .map(({ instancePath, message, params }) => {
      const unknown: unknown = params['additionalProperty'];
      const place = instancePath === '' ? 'the file' : instancePath.slice(1).replaceAll('/', '.');
      return typeof unknown === 'string' ? `${place}: unknown key "${unknown}"` : `${place}: ${message}`;
    });
  return [...new Set(lines)];
}
