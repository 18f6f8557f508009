/** The parts of a JSON schema that configuration code looks at. TypeBox schemas are such objects. */
export interface SchemaNode {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly SchemaNode[];
  readonly items?: SchemaNode;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  /** One of the kernel's own (formats.ts); others are documentation. */
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  /** Values never appear in logs, dumps or errors. */
  readonly secret?: boolean;
}
