import type { TSchema } from '@sinclair/typebox';
import { Ajv, type ErrorObject } from 'ajv';
import { decode, decode32 } from '../lib/base58.ts';
import { isPlainSchema } from '../lib/plain-schema.ts';

/** Checks a value and fills in defaults in place; null if valid, otherwise one sentence. */
export type ValueCheck = (value: unknown) => string | null;

export interface Validator {
  /** Compiles a schema, at the latest when it checks its first value; sentences call the value `name`. */
  compile(schema: TSchema, name: string): ValueCheck;
}

const FORMATS = {
  'base58-32': (text: string) => text.length <= 44 && decode32(text) !== null,
  'base58-64': (text: string) => text.length <= 88 && decode(text)?.length === 64,
};

/** Compiled checks of requests. Types are never coerced. */
export function createValidator(): Validator {
  const ajv = new Ajv({
    strict: false,
    useDefaults: true,
    // Formats other than those below are documentation.
    logger: false,
    formats: FORMATS,
    // The schemas come from builders; validating them would cost each start the compilation of the meta-schema.
    validateSchema: false,
    allErrors: false,
    addUsedSchema: false,
  });
  return {
    compile: (schema, name) => {
      // A schema that may not compile is refused at the start; the others wait for their first request.
      let validate = isPlainSchema(schema) ? null : ajv.compile(schema);
      return (value) => {
        validate ??= ajv.compile(schema);
        return validate(value) ? null : sentence(validate.errors ?? [], name);
      };
    },
  };
}

function sentence(errors: readonly ErrorObject[], name: string): string {
  const error = errors[errors.length - 1];
  if (error === undefined) return `${name} is not valid`;
  const where = pathOf(error.instancePath, name);
  if (error.keyword === 'required') {
    const missing = String(error.params['missingProperty']);
    return `${error.instancePath === '' ? missing : `${where}.${missing}`} is required`;
  }
  if (error.keyword === 'anyOf') {
    const values = errors.filter((other) => other.keyword === 'const').map((other) => other.params['allowedValue']);
    if (values.length === errors.length - 1) return `${where} must be one of ${values.map(String).join(', ')}`;
    return `${where} has none of the allowed forms`;
  }
  return `${where} ${requirement(error)}`;
}

/** `/addresses/3/name` becomes `addresses[3].name`. */
function pathOf(pointer: string, name: string): string {
  if (pointer === '') return name;
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, i) => (/^\d+$/.test(part) ? `[${part}]` : i === 0 ? part : `.${part}`))
    .join('');
}

function requirement(error: ErrorObject): string {
  const { keyword, params } = error;
  const limit = String(params['limit']);
  if (keyword === 'type') return `must be ${articled(params['type'])}`;
  if (keyword === 'minimum') return `must be at least ${limit}`;
  if (keyword === 'maximum') return `must be at most ${limit}`;
  if (keyword === 'minItems') return `must have at least ${limit} items`;
  if (keyword === 'maxItems') return `must have at most ${limit} items`;
  if (keyword === 'minLength') return `must have at least ${limit} characters`;
  if (keyword === 'maxLength') return `must have at most ${limit} characters`;
  if (keyword === 'enum') return `must be one of ${(params['allowedValues'] as unknown[]).map(String).join(', ')}`;
  if (keyword === 'const') return `must be ${JSON.stringify(params['allowedValue'])}`;
  if (keyword === 'pattern' || keyword === 'format') return 'has the wrong form';
  if (keyword === 'additionalProperties') return `must not have the member ${String(params['additionalProperty'])}`;
  return error.message ?? 'is not valid';
}

function articled(type: unknown): string {
  const name = Array.isArray(type) ? type.join(' or ') : String(type);
  return name === 'null' ? name : /^[aeiou]/.test(name) ? `an ${name}` : `a ${name}`;
}
