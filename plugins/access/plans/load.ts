import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { CodedError, messageOf } from '../../../src/lib/coded-error.ts';
import { ACCESS_ERRORS } from '../errors.ts';
import { problemsOf } from './check.ts';
import { createPlans, type Plans } from './plans.ts';
import { type PlansFile, plansSchema } from './schema.ts';

const CONFIG = 78;
const OWN_FILE = join('config', 'plans.yaml');

/** Reads the file of the plans; null is the one that comes with the program. Errors: ACCESS_PLANS_INVALID, exit 78. */
export function loadPlans(file: string | null): Plans {
  const path = file === null ? ownFile() : resolve(file);
  let value: unknown;
  try {
    value = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw invalid(path, [messageOf(error)]);
  }
  const problems = problemsOf(plansSchema, value);
  if (problems.length > 0) throw invalid(path, problems);
  return createPlans(value as PlansFile);
}

/** The nearest one above this file, which lies deeper once it is built. */
function ownFile(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  let path = join(folder, OWN_FILE);
  while (!existsSync(path) && folder !== dirname(folder)) {
    folder = dirname(folder);
    path = join(folder, OWN_FILE);
  }
  return path;
}

function invalid(path: string, problems: readonly string[]): CodedError {
  const message = `${ACCESS_ERRORS.ACCESS_PLANS_INVALID}: ${path}: ${problems.join('; ')}`;
  return new CodedError('ACCESS_PLANS_INVALID', message, { exitCode: CONFIG, facts: { path, problems } });
}
