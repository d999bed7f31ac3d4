import type { Machine } from './journal.ts'
import type { SeededRandom } from './random.ts'

/** What a scripted agent program does with one message, written as JSON text: its brief or a message to it. */
export interface Script {
  /** Unique in the world: so that work that is done twice shows. */
  readonly mark: string
  /** Lines of work before the answer. */
  readonly lines: number
  readonly lineMs: number
  /** Length of the answer beside its marks. */
  readonly answerBytes: number
  /** It ends without an answer after half of its lines. */
  readonly crashes: boolean
}

/** A message as the driver writes it into the program's input. */
export interface ProgramInput {
  readonly id: string
  readonly text: string
}

/** A line of the program's output. */
export type ProgramLine =
  | { readonly type: 'ready'; readonly sessionId: string }
  | { readonly type: 'taken'; readonly id: string }
  | { readonly type: 'said'; readonly text: string }
  | { readonly type: 'result'; readonly text: string }

export interface ProgramHost {
  readonly machine: Machine
  readonly random: SeededRandom
  readonly sessionId: string
  readonly write: (line: ProgramLine) => void
  readonly exit: (code: number) => void
  /** A message begins to have its effect on the world. */
  readonly took: (input: ProgramInput, script: Script) => void
}

/** A deterministic agent program: takes messages one after the other, works, answers, and ends once its input is closed. */
export class Program {
  readonly #host: ProgramHost
  readonly #waiting: ProgramInput[] = []
  #isRunning = true
  #isReady = false
  #isBusy = false
  #isInputClosed = false

  constructor(host: ProgramHost) {
    this.#host = host
    this.#later(10 + host.random.next() * 300, () => {
      this.#isReady = true
      host.write({ type: 'ready', sessionId: host.sessionId })
      this.#next()
    })
  }

  input(message: ProgramInput): void {
    if (!this.#isRunning) return
    this.#waiting.push(message)
    this.#next()
  }

  closeInput(): void {
    this.#isInputClosed = true
    this.#next()
  }

  /** Ends at once, as by a signal that it does not catch. */
  kill(): void {
    this.#isRunning = false
  }

  #next(): void {
    if (!this.#isReady || this.#isBusy || !this.#isRunning) return
    const message = this.#waiting.shift()
    if (message !== undefined) {
      this.#isBusy = true
      this.#work(this.#take(message))
      return
    }
    if (this.#isInputClosed) this.#end(0)
  }

  #take(message: ProgramInput): Script {
    const script = JSON.parse(message.text) as Script
    this.#host.took(message, script)
    this.#host.write({ type: 'taken', id: message.id })
    return script
  }

  #work(script: Script): void {
    const marks = [script.mark]
    const step = (line: number): void => {
      for (const message of this.#waiting.splice(0)) marks.push(this.#take(message).mark)
      if (script.crashes && line >= script.lines / 2) {
        this.#end(1)
      } else if (line < script.lines) {
        this.#host.write({ type: 'said', text: `${script.mark} line ${line}` })
        this.#later(script.lineMs, () => step(line + 1))
      } else {
        this.#host.write({ type: 'result', text: `${marks.join(' ')} ${'.'.repeat(script.answerBytes)}` })
        this.#isBusy = false
        this.#next()
      }
    }
    this.#later(script.lineMs, () => step(0))
  }

  #end(code: number): void {
    this.#isRunning = false
    this.#host.exit(code)
  }

  #later(delayMs: number, work: () => void): void {
    this.#host.machine.after(delayMs, () => {
      if (this.#isRunning) work()
    })
  }
}
