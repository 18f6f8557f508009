/** The crate for Rust: `src/api.rs` and `src/types.rs` beside the client as it stands in `rust/client.rs`. */
import {
  line,
  type Member,
  type Method,
  type Model,
  type NamedType,
  type Operation,
  pathParts,
  type Shape,
  withoutNull,
} from './model.ts';
import { pascal, snake, uniqueNames } from './names.ts';

const KEYWORDS = new Set(
  [
    'as async await break const continue dyn else enum extern false fn for gen if impl in let loop match mod move mut pub ref return static',
    'struct trait true type unsafe use where while abstract become box do final macro override priv try typeof unsized virtual yield',
  ]
    .join(' ')
    .split(' '),
);
/** Not even raw identifiers can have these names. */
const NEVER = new Set(['self', 'super', 'crate']);

export function rustTypes(model: Model): string {
  return [
    `//! Types of parhelion ${model.version}: what JSON has. Made from its documents; do not edit.`,
    '',
    'use std::collections::BTreeMap;',
    '',
    'use serde::{Deserialize, Serialize};',
    'use serde_json::Value;',
    ...model.types.flatMap((type) => ['', ...structLines(type)]),
    '',
  ].join('\n');
}

const doc = (text: string | null, indent = ''): readonly string[] =>
  text === null ? [] : [`${indent}/// ${line(text).replaceAll('[', '\\[').replaceAll('<', '\\<')}`];

function identifier(name: string): string {
  const own = snake(name);
  if (NEVER.has(own)) return `${own}_`;
  return KEYWORDS.has(own) ? `r#${own}` : own;
}

function structLines({ name, text, members }: NamedType): string[] {
  const unique = uniqueNames();
  return [
    ...doc(text),
    '#[derive(Clone, Debug, Default, Serialize, Deserialize)]',
    '#[serde(default)]',
    `pub struct ${pascal(name)} {`,
    ...members.flatMap((member) => {
      const own = unique(identifier(member.name));
      const type = memberType(member, '');
      const facts = [
        ...(own.replace('r#', '') === member.name ? [] : [`rename = ${JSON.stringify(member.name)}`]),
        ...(member.isRequired ? [] : [`skip_serializing_if = "${absence(type)}"`]),
      ];
      return [
        ...doc(member.text, '    '),
        ...(facts.length === 0 ? [] : [`    #[serde(${facts.join(', ')})]`]),
        `    pub ${own}: ${type},`,
      ];
    }),
    '}',
  ];
}

const absence = (type: string): string =>
  type === 'Value' || type === 'types::Value' ? 'Value::is_null' : 'Option::is_none';

function memberType({ shape, isRequired }: Pick<Member, 'shape' | 'isRequired'>, prefix: string): string {
  const { shape: real, isNullable } = withoutNull(shape);
  return isRequired && !isNullable ? typeOf(real, prefix) : option(typeOf(real, prefix));
}

const option = (type: string): string => (type === 'Value' || type.startsWith('Option<') ? type : `Option<${type}>`);

/** `prefix`: of the names of types. */
function typeOf(shape: Shape, prefix: string): string {
  const { shape: real, isNullable } = withoutNull(shape);
  if (isNullable && real.kind !== 'null') return option(typeOf(real, prefix));
  switch (real.kind) {
    case 'boolean':
      return 'bool';
    case 'string':
      return 'String';
    case 'number':
      return 'f64';
    case 'integer':
      return real.isSigned ? 'i64' : 'u64';
    case 'enum':
      return real.values.every((value) => typeof value === 'string') ? 'String' : 'Value';
    case 'array':
      return `Vec<${typeOf(real.of, prefix)}>`;
    case 'map':
      return `BTreeMap<String, ${typeOf(real.of, prefix)}>`;
    case 'tuple':
      return 'Vec<Value>';
    case 'named':
      return `${prefix}${pascal(real.name)}`;
    // Words beside other texts are texts.
    case 'union':
      return real.of.every(({ kind }) => kind === 'string' || kind === 'enum') ? 'String' : 'Value';
    default:
      return 'Value';
  }
}

// ----------------------------------------------------------------------------------------------------------------- calls

export function rustApi(model: Model): string {
  return [
    `//! Routes and methods of parhelion ${model.version}. Made from its documents; do not edit.`,
    '',
    '#![allow(unused_imports)]',
    '',
    'use std::collections::BTreeMap;',
    '',
    'use serde_json::Value;',
    '',
    'use crate::client::{given, segment, value_of, Client, Error, Request};',
    'use crate::types;',
    '',
    `pub(crate) const KEY_HEADER: &str = ${JSON.stringify(model.keyHeader)};`,
    '',
    '/// Methods of JSON-RPC. Others are called with `Client::call`.',
    '#[derive(Clone, Copy, Debug)]',
    "pub struct Rpc<'a>(&'a Client);",
    '',
    'impl Client {',
    '    /// The methods of JSON-RPC.',
    "    pub fn rpc(&self) -> Rpc<'_> {",
    '        Rpc(self)',
    '    }',
    ...model.operations.flatMap((one) => ['', ...operationLines(one)]),
    '}',
    '',
    "impl Rpc<'_> {",
    ...model.methods.flatMap((one) => [...methodLines(one), '']),
    '}',
    '',
  ].join('\n');
}

interface Parameter {
  readonly name: string;
  readonly member: string;
  readonly text: string;
}

function parametersOf(members: readonly Member[], unique: (wanted: string) => string): readonly Parameter[] {
  return members.map((member) => {
    const name = unique(identifier(member.name));
    return { name, member: member.name, text: `${name}: ${borrowed(memberType(member, 'types::'))}` };
  });
}

const borrowed = (type: string): string => {
  if (type === 'String') return '&str';
  if (type === 'Option<String>') return 'Option<&str>';
  if (/^(Vec<|BTreeMap<|types::|Value$)/.test(type)) return `&${type}`;
  return type.replace(/^Option<((?:Vec<|BTreeMap<|types::).*)>$/, 'Option<&$1>');
};

function operationLines({
  id,
  text,
  method,
  path,
  needsKey,
  pathParams,
  query,
  body,
  answer,
  isText,
}: Operation): string[] {
  const unique = uniqueNames(['body', 'query']);
  const inPath = parametersOf(pathParams, unique);
  const bodyType = body === null ? '' : memberType(body, 'types::');
  const takes = [
    '&self',
    ...inPath.map((one) => one.text),
    ...(body === null ? [] : [`body: ${borrowed(bodyType)}`]),
    ...(query === null ? [] : [`query: &types::${pascal(query.name)}`]),
  ];
  const parts = pathParts(path);
  const pattern = parts.map(({ text: part, param }) => (param === null ? part : '{}')).join('');
  const values = parts.flatMap(({ param }) =>
    param === null ? [] : [`segment(&${inPath.find((one) => one.member === param)!.name}.to_string())`],
  );
  const filled =
    values.length === 0
      ? `${JSON.stringify(path)}.to_owned()`
      : `format!(${[JSON.stringify(pattern), ...values].join(', ')})`;
  const request = [
    `method: ${JSON.stringify(method)}`,
    `path: ${filled}`,
    `query: ${query === null ? 'Value::Null' : 'value_of(query)'}`,
    `body: ${body === null ? 'Value::Null' : 'value_of(body)'}`,
    `needs_key: ${needsKey}`,
  ];
  const type = answer === null ? '()' : isText ? 'String' : typeOf(answer, 'types::');
  const call = `Request { ${request.join(', ')} }`;
  return [
    ...doc(text, '    '),
    `    pub fn ${snake(id)}(${takes.join(', ')}) -> Result<${type}, Error> {`,
    answer === null
      ? `        self.fetch_text(${call}).map(|_| ())`
      : `        self.${isText ? 'fetch_text' : 'fetch'}(${call})`,
    '    }',
  ];
}

function methodLines({ name, text, params, paramsType, result }: Method): string[] {
  const unique = uniqueNames(['params']);
  const inOrder = paramsType === null ? parametersOf(params, unique) : [];
  const takes = [
    '&self',
    ...(paramsType === null ? inOrder.map((one) => one.text) : [`params: &types::${pascal(paramsType.name)}`]),
  ];
  const values = inOrder.map((one) => `value_of(${one.name})`).join(', ');
  const sent =
    paramsType !== null ? 'value_of(params)' : inOrder.length === 0 ? 'Value::Null' : `given(vec![${values}])`;
  return [
    ...doc(text, '    '),
    `    pub fn ${identifier(name)}(${takes.join(', ')}) -> Result<${typeOf(result, 'types::')}, Error> {`,
    `        self.0.call(${JSON.stringify(name)}, ${sent})`,
    '    }',
  ];
}
