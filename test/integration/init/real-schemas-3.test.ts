import { testSchemas } from '../../support/init-score/schema-tests.ts'

testSchemas(2, 4)
