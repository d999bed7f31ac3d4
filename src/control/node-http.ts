import process from 'node:process'

/**
 * Node's HTTP. An `import` of it would read every name that it exports, and one of them loads the whole of `fetch`: some
 * 100 ms and 14 MiB in each process, for nothing that is used here.
 */
export const http: typeof import('node:http') = process.getBuiltinModule('node:http')
