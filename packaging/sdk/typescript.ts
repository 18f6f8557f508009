/** The package for TypeScript and JavaScript: `src/index.ts` beside the client as it stands in `typescript/client.ts`. */
import {
  line,
  type Member,
  type Method,
  type Model,
  type NamedType,
  type Operation,
  pathParts,
  type Shape,
} from './model.ts';
import { camel, uniqueNames } from './names.ts';

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
/** Words that no parameter can be called. */
const RESERVED = [
  'break case catch class const continue debugger default delete do else enum export extends false finally for function if import in',
  'instanceof interface new null package private protected public return static super switch this throw true try typeof var void while',
  'with yield let implements arguments eval await',
]
  .join(' ')
  .split(' ');

export function typescriptApi(model: Model): string {
  const parts = [
    `/** Routes and methods of parhelion ${model.version}. Made from its documents; do not edit. */`,
    "import { type CallOptions, Client, type ClientOptions, given, segment, type Uint64 } from './client.js';",
    '',
    "export { type CallOptions, type ClientOptions, type ErrorKind, ParhelionError, type Uint64 } from './client.js';",
    '',
    ...model.types.map(interfaceOf),
    'export class Parhelion extends Client {',
    '  /** The methods of JSON-RPC. */',
    '  readonly rpc: Rpc = new Rpc(this);',
    '',
    '  constructor(options: ClientOptions) {',
    `    super(options, ${quoted(model.keyHeader)});`,
    '  }',
    ...model.operations.flatMap((one) => ['', ...operationLines(one)]),
    '}',
    '',
    '/** Methods of JSON-RPC. Others are called with `Parhelion.call`. */',
    'export class Rpc {',
    '  readonly #client: Client;',
    '',
    '  constructor(client: Client) {',
    '    this.#client = client;',
    '  }',
    ...model.methods.flatMap((one) => ['', ...methodLines(one)]),
    '}',
    '',
  ];
  return parts.join('\n');
}

function interfaceOf({ name, text, members }: NamedType): string {
  const lines = members.flatMap((member) => [
    ...(member.text === null ? [] : [`  ${comment(member.text)}`]),
    `  ${IDENTIFIER.test(member.name) ? member.name : quoted(member.name)}${member.isRequired ? '' : '?'}: ${typeOf(member.shape)};`,
  ]);
  return [...(text === null ? [] : [comment(text)]), `export interface ${name} {`, ...lines, '}', ''].join('\n');
}

const comment = (text: string): string => `/** ${line(text).replaceAll('*/', '*\\/')} */`;
const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function typeOf(shape: Shape): string {
  switch (shape.kind) {
    case 'any':
      return 'unknown';
    case 'integer':
      return shape.isLong ? 'Uint64' : 'number';
    case 'enum':
      return shape.values.map((value) => (typeof value === 'string' ? quoted(value) : String(value))).join(' | ');
    case 'array':
      return itemOf(shape.of);
    case 'map':
      return `Record<string, ${typeOf(shape.of)}>`;
    case 'tuple':
      return `[${shape.of.map(typeOf).join(', ')}]`;
    case 'union':
      return shape.of.length === 0 ? 'never' : shape.of.map(typeOf).join(' | ');
    case 'named':
      return shape.name;
    default:
      return shape.kind;
  }
}

const itemOf = (shape: Shape): string => {
  const text = typeOf(shape);
  return text.includes(' | ') ? `(${text})[]` : `${text}[]`;
};

interface Parameter {
  /** In the code. */
  readonly name: string;
  readonly member: string;
  readonly text: string;
}

/** Parameters of a call in the order of the document; what may be absent stands behind what may not. */
function parametersOf(members: readonly Member[], unique: (wanted: string) => string): readonly Parameter[] {
  return members.map(({ name, shape, isRequired }) => {
    const own = unique(camel(name));
    return { name: own, member: name, text: `${own}${isRequired ? '' : '?'}: ${typeOf(shape)}` };
  });
}

const isNeeded = ({ members }: NamedType): boolean => members.some(({ isRequired }) => isRequired);

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
  const unique = uniqueNames([...RESERVED, 'body', 'query', 'call']);
  const inPath = parametersOf(pathParams, unique);
  const takes = [
    ...inPath.map((one) => one.text),
    ...(body === null ? [] : [`body${body.isRequired ? '' : '?'}: ${typeOf(body.shape)}`]),
    ...(query === null ? [] : [`query${isNeeded(query) ? '' : '?'}: ${query.name}`]),
    'call?: CallOptions',
  ];
  const filled = pathParts(path)
    .map(({ text: part, param }) =>
      param === null ? part : `\${segment(${inPath.find((one) => one.member === param)!.name})}`,
    )
    .join('');
  const request = [
    `method: ${quoted(method)}`,
    `path: ${inPath.length === 0 ? quoted(path) : `\`${filled}\``}`,
    ...(query === null ? [] : ['query']),
    ...(body === null ? [] : ['body']),
    `needsKey: ${needsKey}`,
    ...(isText ? ['isText: true'] : []),
  ];
  return [
    `  ${comment(text)}`,
    `  ${id}(${takes.join(', ')}): Promise<${answer === null ? 'null' : typeOf(answer)}> {`,
    `    return this.request({ ${request.join(', ')} }, call);`,
    '  }',
  ];
}

function methodLines({ name, text, isByName, params, paramsType, result }: Method): string[] {
  const unique = uniqueNames([...RESERVED, 'params', 'call']);
  const inOrder = isByName ? [] : parametersOf(params, unique);
  const takes = [
    ...(paramsType === null
      ? inOrder.map((one) => one.text)
      : [`params${isNeeded(paramsType) ? '' : '?'}: ${paramsType.name}`]),
    'call?: CallOptions',
  ];
  const sent =
    paramsType !== null
      ? 'params'
      : inOrder.length === 0
        ? 'undefined'
        : `given(${inOrder.map((one) => one.name).join(', ')})`;
  return [
    `  ${comment(text)}`,
    `  ${camel(name)}(${takes.join(', ')}): Promise<${typeOf(result)}> {`,
    `    return this.#client.call(${quoted(name)}, ${sent}, call);`,
    '  }',
  ];
}
