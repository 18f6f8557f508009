/** The package for Go: `api.go` beside the client as it stands in `go/client.go`. */
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
import { camel, pascal, uniqueNames } from './names.ts';

const KEYWORDS = [
  'break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select',
  'struct switch type var string bool any error len nil url context json fetch given request',
]
  .join(' ')
  .split(' ');
/** Names of the client. */
const TAKEN = [
  'Client',
  'RPC',
  'New',
  'Ptr',
  'Kind',
  'KindRPC',
  'KindHTTP',
  'KindTimeout',
  'KindConnection',
  'KindAnswer',
  'Error',
  'Call',
];

export function goApi(model: Model): string {
  const names = namesOf(model);
  return [
    `// Routes and methods of parhelion ${model.version}. Code generated from its documents; DO NOT EDIT.`,
    '',
    'package parhelion',
    '',
    'import (',
    '\t"context"',
    '\t"net/url"',
    ')',
    '',
    `const keyHeader = ${JSON.stringify(model.keyHeader)}`,
    ...model.types.flatMap((type) => ['', ...structLines(type, names)]),
    ...model.operations.flatMap((one) => ['', ...operationLines(one, names)]),
    ...model.methods.flatMap((one) => ['', ...methodLines(one, names)]),
    '',
  ].join('\n');
}

type Names = ReadonlyMap<string, string>;

function namesOf({ types }: Model): Names {
  const unique = uniqueNames(TAKEN);
  return new Map(types.map(({ name }) => [name, unique(name)]));
}

interface Field {
  readonly text: string | null;
  readonly columns: readonly [name: string, type: string, tag: string];
}

function structLines({ name, text, members }: NamedType, names: Names): string[] {
  const unique = uniqueNames();
  const fields = members.map((member): Field => {
    const tag = `\`json:"${member.name}${member.isRequired ? '' : ',omitempty'}"\``;
    return { text: member.text, columns: [unique(pascal(member.name)), memberType(member, names), tag] };
  });
  return [
    ...(text === null ? [] : [`// ${names.get(name)}: ${line(text)}`]),
    `type ${names.get(name)} struct {`,
    ...inColumns(fields),
    '}',
  ];
}

/** As gofmt has them: columns go on until the next comment. */
function inColumns(fields: readonly Field[]): string[] {
  const lines: string[] = [];
  for (let start = 0; start < fields.length; ) {
    const next = fields.findIndex(({ text }, at) => at > start && text !== null);
    const run = fields.slice(start, next < 0 ? fields.length : next);
    const width = (column: 0 | 1) => Math.max(...run.map(({ columns }) => columns[column].length));
    const [names, types] = [width(0), width(1)];
    const { text } = fields[start]!;
    if (text !== null) lines.push(`\t// ${line(text)}`);
    for (const { columns } of run)
      lines.push(`\t${columns[0].padEnd(names)} ${columns[1].padEnd(types)} ${columns[2]}`);
    start += run.length;
  }
  return lines;
}

/** A pointer where a value may be absent or null, so that neither is taken for zero. */
function memberType({ shape, isRequired }: Pick<Member, 'shape' | 'isRequired'>, names: Names): string {
  const { shape: real, isNullable } = withoutNull(shape);
  const type = typeOf(real, names);
  return isRequired && !isNullable ? type : pointer(type);
}

const pointer = (type: string): string => (/^(\[\]|map\[|any$)/.test(type) ? type : `*${type}`);

function typeOf(shape: Shape, names: Names): string {
  const { shape: real, isNullable } = withoutNull(shape);
  if (isNullable && real.kind !== 'null') return pointer(typeOf(real, names));
  switch (real.kind) {
    case 'boolean':
      return 'bool';
    case 'string':
      return 'string';
    case 'number':
      return 'float64';
    case 'integer':
      return real.isSigned ? 'int64' : 'uint64';
    case 'enum':
      return real.values.every((value) => typeof value === 'string') ? 'string' : 'any';
    case 'array':
      return `[]${typeOf(real.of, names)}`;
    case 'map':
      return `map[string]${typeOf(real.of, names)}`;
    case 'tuple':
      return '[]any';
    case 'named':
      return names.get(real.name)!;
    // Words beside other texts are texts.
    case 'union':
      return real.of.every(({ kind }) => kind === 'string' || kind === 'enum') ? 'string' : 'any';
    default:
      return 'any';
  }
}

interface Parameter {
  readonly name: string;
  readonly member: string;
  readonly text: string;
}

function parametersOf(
  members: readonly Member[],
  unique: (wanted: string) => string,
  names: Names,
): readonly Parameter[] {
  return members.map((member) => {
    const name = unique(camel(member.name));
    return { name, member: member.name, text: `${name} ${memberType(member, names)}` };
  });
}

function operationLines(operation: Operation, names: Names): string[] {
  const { id, text, method, path, needsKey, pathParams, query, body, answer, isText } = operation;
  const unique = uniqueNames([...KEYWORDS, 'ctx', 'c', 'body', 'query']);
  const inPath = parametersOf(pathParams, unique, names);
  const takes = [
    'ctx context.Context',
    ...inPath.map((one) => one.text),
    ...(body === null
      ? []
      : [`body ${body.isRequired ? typeOf(body.shape, names) : pointer(typeOf(body.shape, names))}`]),
    ...(query === null ? [] : [`query ${names.get(query.name)}`]),
  ];
  const filled = pathParts(path)
    .map(({ text: part, param }) =>
      param === null ? JSON.stringify(part) : `url.PathEscape(${inPath.find((one) => one.member === param)!.name})`,
    )
    .join(' + ');
  const request = [
    `method: ${JSON.stringify(method)}`,
    `path: ${filled}`,
    ...(query === null ? [] : ['query: query']),
    ...(body === null ? [] : ['body: body']),
    ...(needsKey ? ['needsKey: true'] : []),
    ...(isText ? ['isText: true'] : []),
  ];
  const call = `ctx, c, request{${request.join(', ')}}`;
  const name = pascal(id);
  const head = [`// ${name}: ${line(text)}`, `func (c *Client) ${name}(${takes.join(', ')})`];
  if (answer === null) return [head[0]!, `${head[1]} error {`, `\t_, err := fetch[any](${call})`, '\treturn err', '}'];
  const type = isText ? 'string' : typeOf(answer, names);
  return [head[0]!, `${head[1]} (${type}, error) {`, `\treturn fetch[${type}](${call})`, '}'];
}

function methodLines({ name, text, params, paramsType, result }: Method, names: Names): string[] {
  const unique = uniqueNames([...KEYWORDS, 'ctx', 'r', 'params']);
  const inOrder = paramsType === null ? parametersOf(params, unique, names) : [];
  const takes = [
    'ctx context.Context',
    ...(paramsType === null ? inOrder.map((one) => one.text) : [`params ${names.get(paramsType.name)}`]),
  ];
  const sent =
    paramsType !== null
      ? 'params'
      : inOrder.length === 0
        ? 'nil'
        : `given(${inOrder.map((one) => one.name).join(', ')})`;
  const type = typeOf(result, names);
  return [
    `// ${pascal(name)}: ${line(text)}`,
    `func (r *RPC) ${pascal(name)}(${takes.join(', ')}) (${type}, error) {`,
    `\treturn Call[${type}](ctx, r.client, ${JSON.stringify(name)}, ${sent})`,
    '}',
  ];
}
